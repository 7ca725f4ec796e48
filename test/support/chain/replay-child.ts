import { json } from "node:stream/consumers";
import { type DecidedChain, replay } from "./replay.ts";

process.stdout.write(JSON.stringify(await replay((await json(process.stdin)) as DecidedChain)));

import { ENGINES, startUnderComet } from "../../support/chain/nodes.ts";
import { testLife } from "./life.ts";

const skip = ENGINES.find(({ engine }) => engine === "cometbft")?.skip ?? false;

testLife({ engine: "cometbft", skip, start: startUnderComet });

import { serveBatches } from "@turnpike/base";
import { recoverAll } from "./recover-wire.ts";

serveBatches({ work: recoverAll });

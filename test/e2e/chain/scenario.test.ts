import { startDriven } from "./driven-node.ts";
import { testLife } from "./life.ts";

// The same under CometBFT, whose blocks come by its own clock, is scenario-comet.test.ts.
testLife({ engine: "embedded", skip: false, start: startDriven });

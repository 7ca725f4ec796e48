import * as fc from "fast-check";

const SEED = Number(process.env.FUZZ_SEED ?? 1);

// A run finds what the one before found: a failure is then of the change under test. Other cases come by another
// seed, which `npm run test:nightly` takes from the date.
fc.configureGlobal({ seed: SEED });

/** fast-check, whose properties draw the same cases in each run: those of `FUZZ_SEED`, by default 1. */
export { fc };

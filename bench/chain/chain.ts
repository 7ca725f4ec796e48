import type { Benchmark } from "../lib/benchmark.ts";
import { CRYPTO_PARTS, cryptoReport } from "./crypto.ts";

/** The relay protocol's chain. */
export const chainBenchmark: Benchmark = {
  what: "sum tries and ring signatures, ours and the same over noble; Go's where it is installed",
  parts: [...CRYPTO_PARTS],
  packages: ["secp256k1", "@noble/hashes"],
  run: cryptoReport,
};

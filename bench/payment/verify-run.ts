import { AppError } from "@turnpike/base";
import { ownCpuMicros } from "../lib/child.ts";
import { headerOf, payerOf, signPayment } from "./payers.ts";

/** One measurement of verifications. */
export interface VerifyRun {
  readonly count: number;
  /** Verifications under way at once. */
  readonly concurrency: number;
  /** Number of different payers; each payment has its own nonce. */
  readonly payers: number;
}

/** What a measurement of verifications cost. */
export interface VerifyCost {
  readonly cpuMicros: number;
  readonly elapsedMs: number;
}

/** Operations of a verifying child. `rpcUrl` undefined: the stand-in chain in the same process. */
export type VerifyOperations = {
  readonly open: (params: { readonly rpcUrl: string | undefined }) => Promise<void>;
  readonly run: (run: VerifyRun) => Promise<VerifyCost>;
};

/** Verifies fresh payments, given as headers. Signing them is not counted. */
export async function measureVerify(run: VerifyRun, verify: (header: string) => Promise<boolean>): Promise<VerifyCost> {
  const headers = Array.from({ length: run.count }, (_, at) => headerOf(signPayment(payerOf(at % run.payers))));
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < headers.length) {
      const header = headers[next++] ?? "";
      if (!(await verify(header))) throw new AppError("INTERNAL", { message: "A good payment was refused." });
    }
  };
  const cpuBefore = ownCpuMicros();
  const startedMs = performance.now();
  await Promise.all(Array.from({ length: run.concurrency }, work));
  return { cpuMicros: ownCpuMicros() - cpuBefore, elapsedMs: performance.now() - startedMs };
}

import { serveBatches } from "@turnpike/base";
import { packResults, unpackJobs } from "./signing-wire.ts";
import { IdlePreparation, type SigningJob, type SigningNotice, SigningWork } from "./signing-work.ts";

const work = new SigningWork();
const idle = new IdlePreparation(work);

function run(job: SigningJob): Uint8Array | undefined {
  try {
    return work.run(job);
  } catch {
    // A fault of one job is none of the others that came with it.
    return undefined;
  }
}

serveBatches({
  work(jobs) {
    const results = packResults(unpackJobs(jobs).map(run));
    idle.schedule();
    return results;
  },
  notice: (notice) => work.notice(notice as SigningNotice),
  close() {
    idle[Symbol.dispose]();
    work[Symbol.dispose]();
  },
});

import { Session } from "node:inspector/promises";
import { isMainThread } from "node:worker_threads";
import { type Operations, serveParent } from "./child.ts";
import { type FileTime, timeByFile } from "./cpu-profile.ts";
import { threadsCpuMicros } from "./process.ts";

/** What was measured of a program between two looks. */
export interface ProfiledTime {
  /** Of the main thread, by where it was spent; idle time is not in it. */
  readonly files: readonly FileTime[];
  /** CPU of all threads, by their names. */
  readonly threads: Readonly<Record<string, number>>;
}

/** Operations of a program that this module was loaded into, beside those that every child has. */
export interface ObserverOperations extends Operations {
  readonly startProfile: (params: undefined) => Promise<void>;
  readonly stopProfile: (params: undefined) => Promise<ProfiledTime>;
}

const INTERVAL_MICROS = 250;

let session: Session | undefined;
let before: Readonly<Record<string, number>> = {};

async function startProfile(): Promise<void> {
  session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.setSamplingInterval", { interval: INTERVAL_MICROS });
  await session.post("Profiler.start");
  before = threadsCpuMicros();
}

async function stopProfile(): Promise<ProfiledTime> {
  const threads = Object.fromEntries(
    Object.entries(threadsCpuMicros()).map(([name, micros]) => [name, micros - (before[name] ?? 0)]),
  );
  const result = await session?.post("Profiler.stop");
  session?.disconnect();
  session = undefined;
  return { files: result === undefined ? [] : timeByFile(result.profile), threads };
}

if (isMainThread) serveParent<ObserverOperations>({ startProfile, stopProfile });

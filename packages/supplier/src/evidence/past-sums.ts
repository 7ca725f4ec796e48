import { readFile } from "node:fs/promises";
import { isRecord } from "@turnpike/base";
import { writeSafely } from "./files.ts";
import { bigintJson } from "./session-json.ts";
import { addSums, type LossSums, NO_SUMS, type SupplySums } from "./sums.ts";
import type { LossReason } from "./types.ts";

const FORMAT = 1;
/** Name of the file in an operator's folder. */
export const PAST_FILE = "past.json";

/** Sums of an operator's sessions that are not kept by themselves any more, by service. */
export interface PastSums {
  readonly services: Readonly<Record<string, SupplySums>>;
  /** Names of sessions that are in the sums and may still be there: a crash came before they were removed. */
  readonly added: readonly string[];
}

const NOTHING: PastSums = { services: {}, added: [] };

function amounts<Name extends string>(value: unknown, names: readonly Name[]): Record<Name, bigint> {
  const from = isRecord(value) ? value : {};
  const read = (name: Name): bigint => {
    const text = from[name];
    return typeof text === "string" && /^\d{1,39}$/.test(text) ? BigInt(text) : 0n;
  };
  return Object.fromEntries(names.map((name) => [name, read(name)])) as Record<Name, bigint>;
}

function sumsFrom(value: unknown): SupplySums {
  if (!isRecord(value)) return NO_SUMS;
  const lost = Object.entries(isRecord(value.lost) ? value.lost : {}).map(([why, from]): [LossReason, LossSums] => {
    const sessions = isRecord(from) ? Number(from.sessions ?? 0) : 0;
    return [why as LossReason, { sessions, ...amounts(from, ["relays", "expectedUpokt"]) }];
  });
  return {
    sessions: Number(value.sessions ?? 0),
    relays: amounts(value.relays, ["served", "belowDifficulty", "repeated", "mined", "claimed", "proven", "settled"]),
    upokt: amounts(value.upokt, ["expected", "settled", "received", "fees", "penalties"]),
    lost: Object.fromEntries(lost),
  };
}

/** Reads the file of an operator; nothing when there is none, or it is damaged: it is for people. */
export async function readPastSums(file: string): Promise<PastSums> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(file, "utf8"));
  } catch {
    return NOTHING;
  }
  if (!isRecord(value) || value.format !== FORMAT) return NOTHING;
  const services = Object.entries(isRecord(value.services) ? value.services : {});
  return {
    services: Object.fromEntries(services.map(([id, sums]) => [id, sumsFrom(sums)])),
    added: Array.isArray(value.added) ? value.added.filter((name) => typeof name === "string") : [],
  };
}

/** Adds sessions to the sums before they are removed, all at once or none. */
export async function addPastSums(
  file: string,
  past: PastSums,
  sessions: readonly { readonly name: string; readonly serviceId: string; readonly sums: SupplySums }[],
): Promise<PastSums> {
  const services = { ...past.services };
  for (const { serviceId, sums } of sessions) services[serviceId] = addSums(services[serviceId] ?? NO_SUMS, sums);
  const next = { services, added: [...past.added, ...sessions.map(({ name }) => name)] };
  await writeSafely(file, `${bigintJson({ format: FORMAT, ...next })}\n`);
  return next;
}

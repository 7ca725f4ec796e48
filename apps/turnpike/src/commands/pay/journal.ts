import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AppError, isAppError } from "@turnpike/base";
import type { SpendJournal } from "@turnpike/client";
import type { Environment } from "@turnpike/config";
import { buyerStateFolder } from "../../cli/state-folder.ts";

/** The journal of a command, for as long as it runs. */
export interface CallJournal extends AsyncDisposable {
  readonly journal: SpendJournal;
  /** Its path; undefined for one in memory. */
  readonly file: string | undefined;
}

/** A call, and its buyer. */
export interface JournaledCall {
  readonly gateway: string;
  readonly address: string;
  /** True for the gateway of the running `turnpike up`, with its sample buyer. */
  readonly local: boolean;
  readonly service: string;
  readonly body: string | undefined;
}

const disposing = (journal: SpendJournal, file: string | undefined): CallJournal => ({
  journal,
  file,
  [Symbol.asyncDispose]: async () => journal[Symbol.asyncDispose](),
});

/** A payment is good for an hour at most, and so is a stored answer: what is older only fills the folder. */
const MAX_AGE_MS = 30 * 24 * 3_600_000;

/** Removes what calls left that were refused, or were never made again. */
async function removeOld(folder: string, nowMs: number): Promise<void> {
  const { removeSpendJournal } = await import("@turnpike/client");
  const journals = new Set<string>();
  for (const name of await readdir(folder).catch(() => [])) {
    const [, journal] = /^([0-9a-f]{32}\.jsonl)(?:\.lock|\.new)?$/.exec(name) ?? [];
    if (journal !== undefined) journals.add(journal);
  }
  for (const name of journals) {
    // Another process may have it, or remove it too; the journal itself says what is wrong with the folder.
    await removeSpendJournal(join(folder, name), nowMs - MAX_AGE_MS).catch(() => undefined);
  }
}

/**
 * A journal in the user's state folder for this call alone: the same call finds it again, and other calls at the same time need not
 * wait for its lock. It is removed when no payment in it can be presented again.
 */
async function defaultJournal(call: JournaledCall, env: Environment): Promise<CallJournal> {
  const { isJournalInUse, openSpendJournal } = await import("@turnpike/client");
  const { gateway, address, service, body } = call;
  const identity = JSON.stringify([gateway, address.toLowerCase(), service, body ?? null]);
  const name = createHash("sha256").update(identity).digest("hex").slice(0, 32);
  const file = join(buyerStateFolder("pay", call, env), `${name}.jsonl`);
  const journal = await openSpendJournal({ file, isRemovedWhenDone: true }).catch((cause: unknown) => {
    if (!isAppError(cause, "SPEND_JOURNAL")) throw cause;
    if (isJournalInUse(cause)) {
      const message = `The same call is under way in another process, with the journal ${file}; nothing was signed.`;
      throw new AppError("SPEND_JOURNAL", { message, advice: "Run it again when that process has ended.", cause });
    }
    const message = `${cause.message} With --journal <file> or --no-journal, what is open in it may be paid twice.`;
    throw new AppError("SPEND_JOURNAL", { message, cause });
  });
  await removeOld(dirname(file), Date.now());
  return disposing(journal, file);
}

/** Opens the journal of a call: the one that is named, none for `false`, else its own. @throws AppError SPEND_JOURNAL. */
export async function openCallJournal(
  named: string | false | undefined,
  call: JournaledCall,
  env: Environment,
): Promise<CallJournal> {
  if (named === undefined) return defaultJournal(call, env);
  const { memoryJournal, openSpendJournal } = await import("@turnpike/client");
  if (named === false) return disposing(memoryJournal(), undefined);
  return disposing(await openSpendJournal({ file: named }), named);
}

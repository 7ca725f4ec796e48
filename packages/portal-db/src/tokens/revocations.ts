import type { Clock } from "@turnpike/base";

interface RevocationCheckOptions {
  /** How long an answer is used; 2,000 by default: as long a token may go on after it was taken back. */
  readonly keptMs?: number;
  /** Most ids that are remembered; 10,000 by default. */
  readonly maxIds?: number;
}

interface Answer {
  readonly untilMs: number;
  readonly value: Promise<boolean>;
}

/** Whether a token was taken back, asked of the database at most once in `keptMs` for each id. Failures are not kept. */
export function createRevocationCheck(
  opts: RevocationCheckOptions,
  modules: { readonly clock: Clock; readonly find: (tokenId: string) => Promise<boolean> },
): (tokenId: string) => Promise<boolean> {
  const { clock, find } = modules;
  const keptMs = opts.keptMs ?? 2_000;
  const maxIds = opts.maxIds ?? 10_000;
  const answers = new Map<string, Answer>();
  return (tokenId) => {
    const now = clock.monotonicMs();
    const kept = answers.get(tokenId);
    if (kept !== undefined && kept.untilMs > now) return kept.value;
    const value = find(tokenId);
    const answer: Answer = { untilMs: now + keptMs, value };
    answers.delete(tokenId);
    answers.set(tokenId, answer);
    value.catch(() => {
      if (answers.get(tokenId) === answer) answers.delete(tokenId);
    });
    if (answers.size > maxIds) {
      const [oldest] = answers.keys();
      if (oldest !== undefined) answers.delete(oldest);
    }
    return value;
  };
}

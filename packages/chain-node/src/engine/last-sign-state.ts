import { type FileHandle, open, readFile } from "node:fs/promises";
import { AppError, bytesToHex, isRecord, type Log, thrownCode } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";

/** The newest block that a key signed and that was published. */
export interface SignedBlock {
  readonly chainId: string;
  /** Address of the key, 20 bytes. */
  readonly address: Bytes;
  readonly heightBlocks: bigint;
  /** Hash of the block, 32 bytes. */
  readonly hash: Bytes;
}

interface SignState {
  readonly chainId: string;
  readonly address: string;
  readonly heightBlocks: bigint;
  readonly hash: string;
}

// It is always of one length and in one sector, so that writing it again needs no room and leaves the old one or the new one.
const STATE_BYTES = 512;

export interface LastSignStateModules {
  readonly log: Log;
}

function parse(text: string): SignState | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  const { chainId, address, height, hash } = value;
  if (typeof chainId !== "string" || typeof address !== "string" || typeof hash !== "string") return undefined;
  if (typeof height !== "string" || !/^\d{1,19}$/.test(height)) return undefined;
  return { chainId, address, heightBlocks: BigInt(height), hash };
}

function textOf({ chainId, address, heightBlocks, hash }: SignedBlock): Buffer {
  const state = { chainId, address: bytesToHex(address), height: `${heightBlocks}`, hash: bytesToHex(hash) };
  return padded(`${JSON.stringify(state)}\n`);
}

function padded(text: string): Buffer {
  const bytes = Buffer.alloc(STATE_BYTES, " ");
  bytes.write(text);
  return bytes;
}

function logUnwritten(log: Log, fields: Readonly<Record<string, unknown>>): void {
  log.error(fields, "which block is signed cannot be noted: an older copy of the store may go unnoticed");
}

interface OpenFile {
  /** Undefined where it cannot be written. */
  readonly file: FileHandle | undefined;
  readonly text: string;
}

async function openFile(path: string, log: Log): Promise<OpenFile> {
  const unwritable = (cause: unknown): void => logUnwritten(log, { cause, path });
  try {
    const file = await open(path, "r+");
    try {
      return { file, text: await file.readFile("utf8") };
    } catch (cause) {
      await file.close();
      throw cause;
    }
  } catch (cause) {
    if (thrownCode(cause) === "ENOENT") return { file: (await make(path).catch(unwritable)) ?? undefined, text: "" };
    // It may be another user's, or of a folder that is only read. What it says counts all the same.
    const text = await readFile(path, "utf8");
    unwritable(cause);
    return { file: undefined, text };
  }
}

// Its room is taken and on the disk before anything is written to it, so that no loss of power leaves a part.
async function make(path: string): Promise<FileHandle> {
  const file = await open(path, "wx+", 0o600);
  try {
    await file.write(padded(""), 0, STATE_BYTES, 0);
    await file.sync();
    return file;
  } catch (cause) {
    await file.close();
    throw cause;
  }
}

/**
 * The last sign state: a file beside the key that says which block it signed last, as CometBFT's `priv_validator_state.json`. The store alone is enough as long as it is the newest: this
 * finds out that an older copy of it was put in its place, with which the key would sign a height a second time.
 *
 * It is written after the block's commit and before listeners get the block, and not synced: what a loss of power
 * takes from it leaves an older state, never a wrong one. Where it cannot be written the chain goes on, and the log says so.
 */
export class LastSignState implements AsyncDisposable {
  readonly #path: string;
  readonly #file: FileHandle | undefined;
  readonly #found: SignState | undefined;
  readonly #log: Log;
  #isUnwritten = false;

  private constructor(
    opts: { readonly path: string; readonly found: SignState | undefined },
    modules: LastSignStateModules & { readonly file: FileHandle | undefined },
  ) {
    this.#path = opts.path;
    this.#found = opts.found;
    this.#file = modules.file;
    this.#log = modules.log;
  }

  /** Opens the file, or makes an empty one. @throws AppError CHAIN_SIGNED when it holds something else, or cannot be read */
  static async open(path: string, { log }: LastSignStateModules): Promise<LastSignState> {
    const opened = await openFile(path, log).catch((cause: unknown) => {
      const why = cause instanceof Error ? cause.message : "unknown";
      throw new AppError("CHAIN_SIGNED", {
        message: `${path}, which says what was signed last, cannot be read (${why}). Let this user read and write it.`,
        cause,
      });
    });
    // Zeros are what some file systems leave of a file that was new when the power went.
    const text = opened.text.replaceAll("\0", "").trim();
    const found = text === "" ? undefined : parse(text);
    if (text === "" || found !== undefined) return new LastSignState({ path, found }, { file: opened.file, log });
    await opened.file?.close();
    throw new AppError("CHAIN_SIGNED", {
      message: `${path} does not say which block was signed last: restore it from a copy. When no copy is there and the store is the newest one, remove it.`,
    });
  }

  /**
   * @param nextHeightBlocks height of the block that is to be signed
   * @param hashOf hash of a block of the store; undefined when it has none of that height
   * @throws AppError CHAIN_SIGNED when the key signed a block that the store does not have
   */
  check(
    { chainId, address }: Pick<SignedBlock, "chainId" | "address">,
    nextHeightBlocks: bigint,
    hashOf: (heightBlocks: bigint) => Bytes | undefined,
  ): void {
    const signed = this.#found;
    // Another chain's blocks, and another key's, are no second signature.
    if (signed === undefined || signed.chainId !== chainId || signed.address !== bytesToHex(address)) return;
    const behind = signed.heightBlocks >= nextHeightBlocks;
    const own = behind ? undefined : hashOf(signed.heightBlocks);
    // A chain that began above that height has no such block, and signs none of that height.
    if (!behind && (own === undefined || bytesToHex(own) === signed.hash)) return;
    const has = behind
      ? `the store ends at block ${nextHeightBlocks - 1n}`
      : "the store has another block of that height";
    throw new AppError("CHAIN_SIGNED", {
      message: `This node's key signed block ${signed.heightBlocks} already, and ${has}: it is an older copy, or another chain's. To go on would sign a height twice, and others would hold two blocks of it. Put the newest store back. If the later blocks are no longer needed, remove ${this.#path}.`,
    });
  }

  /** Says that a block was signed. The block is written by then: that this is not does not stop the chain, and is logged. */
  async write(block: SignedBlock): Promise<void> {
    const bytes = textOf(block);
    try {
      await this.#file?.write(bytes, 0, bytes.length, 0);
      this.#isUnwritten = false;
    } catch (cause) {
      if (!this.#isUnwritten)
        logUnwritten(this.#log, { cause, path: this.#path, heightBlocks: `${block.heightBlocks}` });
      this.#isUnwritten = true;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file?.close();
  }
}

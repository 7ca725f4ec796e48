import { existsSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { AppError, looksLikeKey, redacted } from "@turnpike/base";
import { newPrivateKey, signerFromKey } from "@turnpike/client";
import { readKeyFile } from "@turnpike/config";
import { outputOf } from "../../cli/context.ts";

export interface KeyOptions {
  readonly json?: boolean;
  readonly showPrivate?: boolean;
}

interface Account {
  readonly address: string;
  readonly privateKey: string;
}

const accountOf = (privateKey: string): Account => ({ address: signerFromKey(privateKey).address, privateKey });

function fileText(file: string, accounts: readonly Account[]): string {
  if (file.endsWith(".json")) return `${JSON.stringify(accounts.length === 1 ? accounts[0] : accounts, null, 2)}\n`;
  return accounts.map(({ address, privateKey }) => `# ${address}\n${privateKey}\n`).join("");
}

function show(accounts: readonly Account[], opts: KeyOptions): void {
  const output = outputOf(opts);
  const shown = accounts.map(({ address, privateKey }) =>
    opts.showPrivate === true ? { address, privateKey } : { address },
  );
  output.result(shown);
  for (const { address, privateKey } of accounts) {
    output.line(opts.showPrivate === true ? `${address} ${privateKey}` : address);
  }
}

/** Makes a key file. @throws AppError USAGE when it is there already. */
export function create(file: string, opts: KeyOptions & { readonly count: string }): void {
  const count = /^[1-9]\d?$/.test(opts.count) ? Number(opts.count) : undefined;
  if (count === undefined) throw new AppError("USAGE", { message: "--count: expected an integer 1..99." });
  if (looksLikeKey(file)) {
    throw new AppError("USAGE", { message: "<file>: names a file, and this is like a key. Name another file." });
  }
  const accounts = Array.from({ length: count }, () => accountOf(newPrivateKey()));
  try {
    writeFileSync(file, fileText(file, accounts), { mode: 0o600, flag: "wx" });
  } catch (cause) {
    throw new AppError("USAGE", {
      message: `${file} cannot be made; a file that is there is never written over.`,
      cause,
    });
  }
  show(accounts, opts);
}

/** Shows the accounts of a key file; with `first`, of its first key only. @throws AppError USAGE, CONFIG_INVALID. */
export function showFile(file: string, opts: KeyOptions & { readonly first?: boolean }): void {
  if (!existsSync(file)) throw new AppError("USAGE", { message: `${redacted(resolve(file))} is not there.` });
  const keys = readKeyFile(file);
  show((opts.first === true ? keys.slice(0, 1) : keys).map(accountOf), opts);
}

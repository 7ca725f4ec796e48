import { join } from "node:path";
import { AppError } from "@turnpike/base";
import { namedKey } from "@turnpike/devnet";
import { outputOf } from "../../cli/context.ts";
import { keysFolderOf } from "../../wiring/chain-client.ts";
import type { ChainStartOptions } from "./action.ts";

/** Makes a key in the keys' folder, or shows the address of one. @throws AppError USAGE, CHAIN_HOME. */
export async function key(name: string, opts: ChainStartOptions): Promise<void> {
  const output = outputOf(opts);
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$/.test(name)) {
    throw new AppError("USAGE", { message: "NAME: expected up to 64 letters, digits, - and _." });
  }
  const keysFolder = keysFolderOf(opts);
  const { signer } = await namedKey(keysFolder, name);
  output.result({ name, address: signer.address, file: join(keysFolder, `${name}.json`) });
  output.line(signer.address);
}

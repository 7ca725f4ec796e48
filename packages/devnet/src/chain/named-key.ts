import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { AppError, bytesToHex, hexToBytes } from "@turnpike/base";
import { type ChainSigner, createChainSigner } from "@turnpike/chain-client";
import { isPrivateKey } from "@turnpike/crypto";
import { readOrMakeSecrets } from "../secrets-file.ts";

/** A signer with its private key, 32 bytes. */
export interface NamedKey {
  readonly signer: ChainSigner;
  readonly privateKey: Uint8Array;
}

/** Reads a key from the keys' folder by its name, or makes it. Files have mode 600, the folder 700. */
export async function namedKey(keysFolder: string, name: string): Promise<NamedKey> {
  await mkdir(keysFolder, { recursive: true, mode: 0o700 });
  const file = join(keysFolder, `${name}.json`);
  const found = await readOrMakeSecrets(file, () => {
    let key: Uint8Array = randomBytes(32);
    while (!isPrivateKey(key)) key = randomBytes(32);
    const { address, publicKey } = createChainSigner(key);
    return { name, address, publicKey: bytesToHex(publicKey), privateKey: bytesToHex(key) };
  });
  const privateKey = typeof found.privateKey === "string" ? hexToBytes(found.privateKey) : undefined;
  if (privateKey === undefined || !isPrivateKey(privateKey)) {
    throw new AppError("CHAIN_HOME", {
      message: `${file} holds no key; restore it, or begin a new chain in another folder.`,
    });
  }
  return { signer: createChainSigner(privateKey), privateKey };
}

import { randomBytes } from "node:crypto";
import { link, mkdir, open, readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { AppError, base64ToBytes, bytesEqual, bytesToBase64, bytesToHex, isAppError, isRecord } from "@turnpike/base";
import { createEd25519Signer, type Ed25519Signer, validatorKeyAddress } from "@turnpike/crypto";

const PRIVATE_TYPE = "tendermint/PrivKeyEd25519";
const PUBLIC_TYPE = "tendermint/PubKeyEd25519";

/** The id of a node (40 lower-case hex digits) with this key. */
export function nodeIdOf(publicKey: Uint8Array): string {
  return bytesToHex(validatorKeyAddress(publicKey));
}

function invalid(path: string, why: string): AppError {
  return new AppError("CONFIG_INVALID", { message: `The key file ${path} is not valid: ${why}.` });
}

const isMissing = (cause: unknown): boolean => isRecord(cause) && cause.code === "ENOENT";
const isThere = (cause: unknown): boolean => isRecord(cause) && cause.code === "EEXIST";

function keyBytes(path: string, value: unknown, type: string, length: number): Uint8Array {
  if (!isRecord(value) || value.type !== type || typeof value.value !== "string") {
    throw invalid(path, `it has no key of type ${type}`);
  }
  const bytes = base64ToBytes(value.value);
  if (bytes?.length !== length) throw invalid(path, `a key of type ${type} has ${length} bytes`);
  return bytes;
}

function parseKeyFile(path: string, text: string): Ed25519Signer {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch {
    // The parser's own text would quote the key.
    throw invalid(path, "it is not JSON");
  }
  if (!isRecord(file)) throw invalid(path, "it is no JSON object");
  const signer = createEd25519Signer(keyBytes(path, file.priv_key, PRIVATE_TYPE, 64));
  if (file.pub_key !== undefined && !bytesEqual(keyBytes(path, file.pub_key, PUBLIC_TYPE, 32), signer.publicKey)) {
    throw invalid(path, "the public key is not the private key's");
  }
  return signer;
}

async function readKeyFile(path: string): Promise<Ed25519Signer | undefined> {
  try {
    return parseKeyFile(path, await readFile(path, "utf8"));
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    if (isAppError(cause)) throw cause;
    const why = isRecord(cause) && typeof cause.code === "string" ? cause.code : "unknown";
    throw new AppError("CONFIG_INVALID", { message: `The key file ${path} cannot be read (${why}).`, cause });
  }
}

// Written beside, then linked: a file of that name is whole, and never another's replaced.
async function writeNew(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const beside = `${path}.${randomBytes(6).toString("hex")}`;
  const file = await open(beside, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await link(beside, path);
  } finally {
    await file.close();
    await rm(beside, { force: true });
  }
}

async function loadOrCreate(path: string, textOf: (key: Uint8Array, signer: Ed25519Signer) => unknown) {
  const found = await readKeyFile(path);
  if (found !== undefined) return found;
  const seed = randomBytes(32);
  const signer = createEd25519Signer(seed);
  const text = `${JSON.stringify(textOf(Buffer.concat([seed, signer.publicKey]), signer), undefined, 2)}\n`;
  try {
    await writeNew(path, text);
    return signer;
  } catch (cause) {
    const other = isThere(cause) ? await readKeyFile(path) : undefined;
    if (other === undefined) throw cause;
    return other;
  }
}

const privateJson = (key: Uint8Array): unknown => ({ type: PRIVATE_TYPE, value: bytesToBase64(key) });

/**
 * The node's own key from CometBFT's `node_key.json`; a new one is made, with mode 0600, where there is no file.
 * @throws AppError CONFIG_INVALID when the file holds no such key
 */
export function loadNodeKey(path: string): Promise<Ed25519Signer> {
  return loadOrCreate(path, (key) => ({ priv_key: privateJson(key) }));
}

/**
 * The key that signs blocks, from CometBFT's `priv_validator_key.json`; a new one is made, with mode 0600, where there is
 * no file.
 * @throws AppError CONFIG_INVALID when the file holds no such key
 */
export function loadValidatorKey(path: string): Promise<Ed25519Signer> {
  return loadOrCreate(path, (key, { publicKey }) => ({
    address: bytesToHex(validatorKeyAddress(publicKey)).toUpperCase(),
    pub_key: { type: PUBLIC_TYPE, value: bytesToBase64(publicKey) },
    priv_key: privateJson(key),
  }));
}

import { chmod, readFile } from "node:fs/promises";
import { type Address, AppError, isRecord, writeAtomically } from "@turnpike/base";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

/** A local account. */
export interface LocalAccount {
  readonly address: Address;
  readonly privateKey: `0x${string}`;
}

/** The accounts of one local network. Each key is used by one part only. */
export interface LocalKeys {
  /** Is paid. */
  readonly payTo: LocalAccount;
  /** Pays; for the user who tries the network, used by no part of it. */
  readonly buyer: LocalAccount;
  /** Send the gateway's settlements. */
  readonly gatewayRelayers: readonly LocalAccount[];
  /** Send the facilitator's settlements. */
  readonly facilitatorRelayers: readonly LocalAccount[];
}

const GATEWAY_RELAYERS = 2;
const FACILITATOR_RELAYERS = 1;
const KEY = /^0x[0-9a-f]{64}$/;

function accountOf(value: unknown, file: string): LocalAccount {
  if (typeof value !== "string" || !KEY.test(value)) {
    throw new AppError("DATA_FOLDER", { message: `${file} is damaged. Start over with \`npm start -- --fresh\`.` });
  }
  const privateKey = value as `0x${string}`;
  return { address: privateKeyToAccount(privateKey).address, privateKey };
}

/** Reads the keys of the state folder, or makes them. The file has mode 600. */
export async function localKeys(file: string): Promise<LocalKeys> {
  let text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) {
    const many = (count: number): string[] => Array.from({ length: count }, () => generatePrivateKey());
    const made = {
      payTo: generatePrivateKey(),
      buyer: generatePrivateKey(),
      gatewayRelayers: many(GATEWAY_RELAYERS),
      facilitatorRelayers: many(FACILITATOR_RELAYERS),
    };
    text = `${JSON.stringify(made, undefined, 2)}\n`;
    await writeAtomically(file, text);
  }
  await chmod(file, 0o600);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const keys = isRecord(value) ? value : {};
  const list = (found: unknown): LocalAccount[] =>
    Array.isArray(found) && found.length > 0 ? found.map((key) => accountOf(key, file)) : [accountOf(undefined, file)];
  return {
    payTo: accountOf(keys.payTo, file),
    buyer: accountOf(keys.buyer, file),
    gatewayRelayers: list(keys.gatewayRelayers),
    facilitatorRelayers: list(keys.facilitatorRelayers),
  };
}

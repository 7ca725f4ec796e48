import { type Address, AppError } from "@turnpike/base";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { readOrMakeSecrets } from "../secrets-file.ts";

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
  const many = (count: number): string[] => Array.from({ length: count }, () => generatePrivateKey());
  const keys = await readOrMakeSecrets(file, () => ({
    payTo: generatePrivateKey(),
    buyer: generatePrivateKey(),
    gatewayRelayers: many(GATEWAY_RELAYERS),
    facilitatorRelayers: many(FACILITATOR_RELAYERS),
  }));
  const list = (found: unknown): LocalAccount[] =>
    Array.isArray(found) && found.length > 0 ? found.map((key) => accountOf(key, file)) : [accountOf(undefined, file)];
  return {
    payTo: accountOf(keys.payTo, file),
    buyer: accountOf(keys.buyer, file),
    gatewayRelayers: list(keys.gatewayRelayers),
    facilitatorRelayers: list(keys.facilitatorRelayers),
  };
}

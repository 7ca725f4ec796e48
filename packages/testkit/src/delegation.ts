import { randomBytes } from "node:crypto";
import { type Address, bytesToHex0x } from "@turnpike/base";
import { setCode } from "@turnpike/localnet";

/** `JUMPDEST PUSH1 0 JUMP`: a loop without an end. */
const BURNING_CODE = "0x5b600056";

/** Puts a contract that burns all gas that it gets on a development chain; resolves with its address. */
export async function deployGasBurner(rpcUrl: string): Promise<Address> {
  const address = bytesToHex0x(randomBytes(20));
  await setCode(rpcUrl, address, BURNING_CODE);
  return address;
}

/** Leaves on a development chain what an account's delegation of its code to a contract leaves (EIP-7702), or its end. */
export function delegateCode(rpcUrl: string, account: Address, to: Address | undefined): Promise<void> {
  return setCode(rpcUrl, account, to === undefined ? "0x" : `0xef0100${to.slice(2)}`);
}

import { randomBytes } from "node:crypto";
import { type Address, bytesToHex0x } from "@turnpike/base";
import { devRpc, setCode } from "@turnpike/localnet";

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

/** A contract wallet's answer to ERC-1271 where `condition` leaves zero on the stack; else a loop without an end. */
function conditionalWallet(condition: string): `0x${string}` {
  const answer = "631626ba7e60e01b60005260206000f3";
  const end = (condition.length / 2 + 3 + answer.length / 2).toString(16).padStart(2, "0");
  return `0x${condition}60${end}57${answer}5b60${end}56`;
}

/** Code of a wallet that accepts every signature in blocks of even numbers (`odd`: of odd ones), and burns gas in the others. */
export function parityWallet(accepts: "even" | "odd"): `0x${string}` {
  return conditionalWallet(accepts === "even" ? "43600116" : "4360011615");
}

/** A contract wallet's code on a development chain that accepts every signature until its switch is on, and burns gas then. */
export interface SwitchWallet {
  /** To delegate to. */
  readonly wallet: Address;
  readonly code: `0x${string}`;
  turn(isOn: boolean): Promise<void>;
}

/** Deploys a {@link SwitchWallet}: its switch is the balance of another account, which anyone can change. */
export async function deploySwitchWallet(rpcUrl: string): Promise<SwitchWallet> {
  const wallet = bytesToHex0x(randomBytes(20));
  const account = bytesToHex0x(randomBytes(20));
  const code = conditionalWallet(`73${account.slice(2)}31`);
  await setCode(rpcUrl, wallet, code);
  return {
    wallet,
    code,
    async turn(isOn) {
      await devRpc(rpcUrl, "anvil_setBalance", [account, isOn ? "0x1" : "0x0"]);
    },
  };
}

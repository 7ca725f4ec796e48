import { type Address, bytesToHex, hexToBytes } from "@turnpike/base";
import { keccak256 } from "@turnpike/crypto";
import { type Hex, isHex } from "../evm/abi.ts";
import { unwrapErc6492 } from "../evm/erc6492.ts";
import type { EvmRpc, RpcReply } from "../evm/rpc.ts";
import type { WalletSubjects } from "../ledger-types.ts";
import type { PaymentRecord, PaymentRefusal } from "../types.ts";
import { oddAnswer } from "./reading.ts";

/** Start of the code of an account that delegated its code to a contract, whose address follows (EIP-7702). */
const DELEGATION = "0xef0100";
const NO_CODE = "0x";

type CodeRpc = Pick<EvmRpc, "host" | "batch">;

/** The contract that an account delegated its code to (EIP-7702); undefined for any other code. */
function delegateOf(code: Hex): Address | undefined {
  const text = code.toLowerCase();
  return text.length === DELEGATION.length + 40 && text.startsWith(DELEGATION)
    ? `0x${text.slice(DELEGATION.length)}`
    : undefined;
}

/** Reads the code of accounts in one exchange. @throws AppError SETTLEMENT_UNAVAILABLE */
export async function readCodes(
  accounts: readonly Address[],
  rpc: CodeRpc,
  signal?: AbortSignal,
): Promise<ReadonlyMap<Address, Hex>> {
  const unique = [...new Set(accounts)];
  if (unique.length === 0) return new Map();
  const replies = await rpc.batch(
    unique.map((account) => ({ method: "eth_getCode", params: [account, "latest"] })),
    signal,
  );
  return new Map(unique.map((account, at) => [account, codeIn(replies[at], rpc)]));
}

/** Reads the reply of `eth_getCode`. @throws AppError SETTLEMENT_UNAVAILABLE */
export function codeIn(reply: RpcReply | undefined, rpc: CodeRpc): Hex {
  if (reply?.ok === true && isHex(reply.result)) return reply.result;
  throw oddAnswer({ rpc }, "eth_getCode");
}

/**
 * Returns what the lost gas of an account with this code is counted under: the code's hash, and the contract it is delegated
 * to together with that one's code, since a copy of it has another address.
 */
async function readClasses(code: Hex, rpc: CodeRpc, signal?: AbortSignal): Promise<readonly string[]> {
  if (code === NO_CODE) return [];
  const delegate = delegateOf(code);
  if (delegate === undefined) return [codeClass(code)];
  const delegated = (await readCodes([delegate], rpc, signal)).get(delegate) ?? NO_CODE;
  return [`delegate:${delegate}`, ...(delegated === NO_CODE ? [] : [codeClass(delegated)])];
}

/** Returns the subjects of a payment: its payer with the classes of its code, or with the factory that deploys it (ERC-6492). */
export async function readSubjects(
  { key, signature }: Pick<PaymentRecord, "key" | "signature">,
  code: Hex,
  rpc: CodeRpc,
  signal?: AbortSignal,
): Promise<WalletSubjects> {
  const classes = await readClasses(code, rpc, signal);
  const factory = classes.length === 0 ? unwrapErc6492(signature)?.factory : undefined;
  return { payer: key.from, classes: factory === undefined ? classes : [`factory:${factory.toLowerCase()}`] };
}

/** Refusal of a payment whose payer, or whose payer's code, has lost gas of settlements lately. */
export function pausedWallet(retryAfterSeconds: number): PaymentRefusal {
  const message = "Settlements of this account, or of accounts with the same code, have failed lately; pay later.";
  return { ok: false, code: "PAYMENT_SIMULATION_FAILED", message, retryAfterSeconds };
}

/** Refusal of a payment for which too many of its payer, or of its payer's code, are being settled. */
export function waitingWallet(): PaymentRefusal {
  const message = "This account, or accounts with the same code, have as many payments under way as they may have.";
  return { ok: false, code: "PAYMENT_RATE_LIMITED", message, retryAfterSeconds: 1 };
}

function codeClass(code: Hex): string {
  return `code:${bytesToHex(keccak256(hexToBytes(code) ?? new Uint8Array()))}`;
}

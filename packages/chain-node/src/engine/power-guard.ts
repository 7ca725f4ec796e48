import { bytesToHex } from "@turnpike/base";
import { boundsFault, fail, integerOf, POWER_REDUCTION, SDK, type TxFault } from "@turnpike/chain";
import type { Bytes } from "@turnpike/chain-store";
import { totalPower, txHash, type ValidatorSet, validatorAt } from "@turnpike/cometbft";
import { type Any, authz, decodeMessage, staking, tx as txs, typeUrlOf } from "@turnpike/proto";

export interface PowerGuardModules {
  /** Address of the key that signs, 20 bytes. */
  readonly address: Bytes;
  /** The newest set, with all that blocks have changed. */
  readonly validators: () => ValidatorSet;
  /** Whether the mempool holds a transaction, by the hex of its hash. */
  readonly waits: (hash: string) => boolean;
}

const CREATE = typeUrlOf(staking.MsgCreateValidatorSchema);
const EXEC = typeUrlOf(authz.MsgExecSchema);
/** What such a transaction holds as it stands, however deep. */
const MARK = Buffer.from(CREATE);
const DEEPEST_NESTING = 16;

function powerIn(messages: readonly Any[], depth: number): bigint {
  if (depth > DEEPEST_NESTING) return 0n;
  let power = 0n;
  for (const { typeUrl, value } of messages) {
    if (typeUrl === CREATE) {
      const decoded = decodeMessage(staking.MsgCreateValidatorSchema, value);
      const amount = decoded.ok ? integerOf(decoded.message.value?.amount ?? "") : undefined;
      if (amount !== undefined && amount > 0n) power += amount / POWER_REDUCTION;
    } else if (typeUrl === EXEC) {
      const decoded = decodeMessage(authz.MsgExecSchema, value);
      if (decoded.ok) power += powerIn(decoded.message.msgs, depth + 1);
    }
  }
  return power;
}

/** Voting power of the validators that a transaction would make; 0 for one that the chain does not read. */
function createdPower(tx: Bytes): bigint {
  if (!Buffer.from(tx.buffer, tx.byteOffset, tx.byteLength).includes(MARK)) return 0n;
  const raw = decodeMessage(txs.TxRawSchema, tx);
  if (!raw.ok || boundsFault(txs.TxBodySchema, raw.message.bodyBytes) !== undefined) return 0n;
  const body = decodeMessage(txs.TxBodySchema, raw.message.bodyBytes);
  return body.ok ? powerIn(body.message.messages, 0) : 0n;
}

/**
 * Keeps validators out of an embedded chain's mempool that would take the power to make blocks from its one key. The mempool is
 * all that its blocks are made of, so that what is refused here is in no block: the state machine needs no rule of its own,
 * and runs the same blocks to the same state under either engine (docs/decisions/0008).
 */
export class PowerGuard {
  readonly #modules: PowerGuardModules;
  // By the hash of a transaction that waits for a block.
  readonly #waiting = new Map<string, bigint>();

  constructor(modules: PowerGuardModules) {
    this.#modules = modules;
  }

  /** Why the mempool must not take a transaction; undefined when it may. */
  refusal(tx: Bytes): TxFault | undefined {
    const created = createdPower(tx);
    if (created === 0n) return undefined;
    const set = this.#modules.validators();
    const own = validatorAt(set, this.#modules.address)?.votingPower ?? 0n;
    let total = totalPower(set.validators) + created;
    for (const [hash, power] of this.#waiting) {
      if (this.#modules.waits(hash)) total += power;
      else this.#waiting.delete(hash);
    }
    if (own > (total * 2n) / 3n) return undefined;
    const text =
      "this node's validator makes the blocks alone and would keep no more than two thirds of the voting power";
    return fail(SDK.notSupported, text).fault;
  }

  /** Counts a transaction that the mempool takes, until it waits no more. */
  accepted(tx: Bytes): void {
    const power = createdPower(tx);
    if (power > 0n) this.#waiting.set(bytesToHex(txHash(tx)), power);
  }
}

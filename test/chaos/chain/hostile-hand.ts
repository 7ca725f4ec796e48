import type { MessageInitShape } from "@bufbuild/protobuf";
import { type ChainSigner, packPublicKey } from "@turnpike/chain-client";
import { type Any, bank, createMessage, encodeMessage, packAny, signing, tx } from "@turnpike/proto";
import type { Chance } from "@turnpike/testkit/chance";
import type { MessageWorld } from "./hostile-messages.ts";

/** Someone whose transactions are no good, but whose key and money are. */
export interface Attacker {
  readonly signer: ChainSigner;
  readonly accountNumber: bigint;
}

/** What hostile transactions are made of. */
export interface TxWorld extends MessageWorld {
  readonly chainId: string;
  readonly attackers: readonly [Attacker, ...Attacker[]];
  /** Time of the newest block, in nanoseconds since 1970. */
  readonly nowNanos: () => bigint;
}

type Body = Exclude<MessageInitShape<typeof tx.TxBodySchema>, tx.TxBody>;
type AuthInfo = Exclude<MessageInitShape<typeof tx.AuthInfoSchema>, tx.AuthInfo>;

/** A second in nanoseconds. */
export const SECOND = 1_000_000_000n;
/** Gas that is enough for most messages. */
export const GAS = 2_000_000n;
/** A fee that the node takes for {@link GAS}. */
export const FEE = [{ denom: "upokt", amount: "2" }];

const timestamp = (nanos: bigint) => ({ seconds: nanos / SECOND, nanos: Number(nanos % SECOND) });

/** A transaction as bytes. */
export const bytesOf = (raw: tx.TxRaw): Uint8Array => encodeMessage(tx.TxRawSchema, raw);

/** What a kind of transaction is made with, by one attacker. */
export class Hand {
  readonly chance: Chance;
  readonly world: TxWorld;
  readonly attacker: Attacker;
  readonly sent: readonly Uint8Array[];

  constructor(chance: Chance, world: TxWorld, attacker: Attacker, sent: readonly Uint8Array[]) {
    this.chance = chance;
    this.world = world;
    this.attacker = attacker;
    this.sent = sent;
  }

  /** A body that stands by itself, so that many of an account wait at once. */
  body(init: Body): Uint8Array {
    const timeoutNanos = this.world.nowNanos() + BigInt(20 + this.chance.below(300)) * SECOND;
    const alone = { unordered: true, timeoutTimestamp: timestamp(timeoutNanos + BigInt(this.chance.below(1e9))) };
    return encodeMessage(tx.TxBodySchema, createMessage(tx.TxBodySchema, { ...alone, ...init }));
  }

  auth(init: AuthInfo = {}): Uint8Array {
    const publicKey = packPublicKey(this.attacker.signer.publicKey);
    const modeInfo = { sum: { case: "single", value: { mode: signing.SignMode.DIRECT } } } as const;
    const usual = { signerInfos: [{ publicKey, modeInfo }], fee: { amount: FEE, gasLimit: GAS } };
    return encodeMessage(tx.AuthInfoSchema, createMessage(tx.AuthInfoSchema, { ...usual, ...init }));
  }

  seal(bodyBytes: Uint8Array, authInfoBytes: Uint8Array, chainId = this.world.chainId): tx.TxRaw {
    const { accountNumber, signer } = this.attacker;
    const document = createMessage(tx.SignDocSchema, { bodyBytes, authInfoBytes, chainId, accountNumber });
    const signature = signer.sign(encodeMessage(tx.SignDocSchema, document));
    return createMessage(tx.TxRawSchema, { bodyBytes, authInfoBytes, signatures: [signature] });
  }

  send(amount = 1n): Any {
    const toAddress = this.chance.pick(this.world.attackers).signer.address;
    const coins = [{ denom: "upokt", amount: `${amount}` }];
    const init = { fromAddress: this.attacker.signer.address, toAddress, amount: coins };
    return packAny(bank.MsgSendSchema, createMessage(bank.MsgSendSchema, init));
  }

  /** Signed as it should be. */
  signed(body: Body, auth?: AuthInfo, chainId?: string): Uint8Array {
    return bytesOf(this.seal(this.body(body), this.auth(auth), chainId));
  }
}

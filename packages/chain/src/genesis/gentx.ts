import { type ChainSigner, signTx } from "@turnpike/chain-client";
import { addressToBytes, validatorAddress } from "@turnpike/crypto";
import { base, createMessage, cryptoEd25519, decodeMessage, packAny, staking, toApiJson, tx } from "@turnpike/proto";
import { STAKE_DENOM } from "../state/stakes.ts";

/** A validator that a chain begins with. */
export interface GenesisValidator {
  readonly moniker: string;
  /** Account that bonds, and signs. */
  readonly signer: ChainSigner;
  /** Ed25519 key that signs blocks, 32 bytes. */
  readonly consensusKey: Uint8Array;
  readonly bondUpokt: bigint;
}

/** The signed transaction of a validator, as `app_state.genutil.gen_txs` has it. */
export function genesisTx(chainId: string, { moniker, signer, consensusKey, bondUpokt }: GenesisValidator): unknown {
  const key = createMessage(cryptoEd25519.PubKeySchema, { key: consensusKey });
  const message = createMessage(staking.MsgCreateValidatorSchema, {
    description: createMessage(staking.DescriptionSchema, { moniker }),
    commission: createMessage(staking.CommissionRatesSchema, {
      rate: "100000000000000000",
      maxRate: "200000000000000000",
      maxChangeRate: "10000000000000000",
    }),
    minSelfDelegation: "1",
    validatorAddress: validatorAddress(addressToBytes(signer.address) ?? new Uint8Array(0)),
    pubkey: packAny(cryptoEd25519.PubKeySchema, key),
    value: createMessage(base.CoinSchema, { denom: STAKE_DENOM, amount: bondUpokt.toString() }),
  });
  const bytes = signTx(
    {
      messages: [packAny(staking.MsgCreateValidatorSchema, message)],
      chainId,
      accountNumber: 0n,
      order: { kind: "ordered", sequence: 0n },
      gasLimit: 200_000n,
      fee: [],
    },
    signer,
  );
  const decoded = decodeMessage(tx.TxSchema, bytes);
  return decoded.ok ? toApiJson(tx.TxSchema, decoded.message) : undefined;
}

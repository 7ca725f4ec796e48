import { readFileSync } from "node:fs";
import type { ChainEvent } from "@turnpike/chain";

/** A recorded transaction, as far as tests read it. */
export interface RecordedTx {
  readonly signer: { readonly address: string };
  readonly account_number: string;
  readonly sequence: string;
  readonly chain_id: string;
  readonly tx_bytes: string;
  readonly tx_json: {
    readonly body: { readonly messages: readonly { readonly services?: readonly unknown[] }[] };
    readonly auth_info: { readonly signer_infos: { readonly public_key: { readonly key: string } }[] };
  };
  readonly broadcast_sync: {
    readonly result: { readonly code: number; readonly codespace: string; readonly log: string };
  };
  readonly result?: {
    readonly tx_response: {
      readonly height: string;
      readonly timestamp: string;
      readonly code: number;
      readonly codespace: string;
      readonly raw_log: string;
      readonly data: string;
      readonly gas_used: string;
      readonly events: readonly ChainEvent[];
    };
  };
}

const ROOT = new URL("../../../test/spec/recorded-chain/txs/", import.meta.url);

/** Reads a recorded transaction by its file's name. */
export function readRecordedTx(name: string): RecordedTx {
  return JSON.parse(readFileSync(new URL(`${name}.json`, ROOT), "utf8")) as RecordedTx;
}

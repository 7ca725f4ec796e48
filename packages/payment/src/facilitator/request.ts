import {
  type Address,
  bytesToHex,
  isRecord,
  type NetworkId,
  parseJson,
  sameAddress,
  utf8ToBytes,
} from "@turnpike/base";
import { sha256 } from "@turnpike/crypto";
import { PAYMENT_JSON_LIMITS, readPaymentPayload } from "../header.ts";
import { matchOption } from "../option.ts";
import type { DecodedPayment, PaymentOption, PaymentRefusal } from "../types.ts";

/** A token that this facilitator settles in. */
export interface FacilitatorAsset {
  readonly network: NetworkId;
  readonly address: Address;
  /** EIP-712 domain of the token. */
  readonly name: string;
  readonly version: string;
}

/** Result of {@link readRequest}: `malformed` is about the request, `refused` about the payment in it. */
export type ReadRequest =
  | {
      readonly kind: "read";
      /**
       * `payloadDigest` is over what is required, what is signed and the signature, so that another spelling is the same
       * payment.
       */
      readonly payment: DecodedPayment;
    }
  | { readonly kind: "malformed"; readonly message: string }
  | {
      readonly kind: "refused";
      readonly refusal: PaymentRefusal;
      readonly network: NetworkId;
      readonly payer: Address;
    };

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
const UINT = /^(?:0|[1-9][0-9]{0,77})$/;
/** A payment whose payer moved its funds away is pending until its window ends: as long as our own client signs for. */
const MAX_TIMEOUT_SECONDS = 3_600;

/** Reads the body of `POST /verify` or `POST /settle` (x402 v2), strictly. */
export function readRequest(body: Uint8Array, assets: readonly FacilitatorAsset[]): ReadRequest {
  const parsed = parseJson(body, PAYMENT_JSON_LIMITS);
  if (!parsed.ok) return malformed(`The body is not one JSON document (${parsed.reason}).`);
  if (!isRecord(parsed.value)) return malformed("The body is not a JSON object.");
  if (parsed.value.x402Version !== 2) return malformed("`x402Version` must be 2.");
  if (!Object.hasOwn(parsed.value, "paymentPayload")) return malformed("There is no `paymentPayload`.");
  const option = readRequirements(parsed.value.paymentRequirements);
  if (typeof option === "string") return malformed(`\`paymentRequirements\` ${option}.`);
  const payload = readPaymentPayload(parsed.value.paymentPayload);
  if (typeof payload === "string") return malformed(`\`paymentPayload\` ${payload}.`);
  const refused = (message: string): ReadRequest => ({
    kind: "refused",
    refusal: { ok: false, code: "PAYMENT_OPTION_UNKNOWN", message },
    network: option.network,
    payer: payload.authorization.from,
  });
  const asset = assets.find(({ network, address }) => network === option.network && sameAddress(address, option.asset));
  if (asset === undefined) return refused("This network and asset are not settled here.");
  if (asset.name !== option.extra.name || asset.version !== option.extra.version) {
    return refused("`extra` is not the EIP-712 domain of the asset.");
  }
  if (matchOption(payload.accepted, [option]) === undefined) {
    return refused("`accepted` of the payload is not `paymentRequirements`.");
  }
  const payloadDigest = digestOf(payload, option);
  return { kind: "read", payment: { ...payload, payloadDigest, option } };
}

function readRequirements(value: unknown): PaymentOption | string {
  if (!isRecord(value)) return "is not an object";
  const { scheme, network, amount, asset, payTo, maxTimeoutSeconds, extra } = value;
  if (scheme !== "exact") return "must have the scheme `exact`";
  if (typeof network !== "string" || !/^eip155:[1-9][0-9]{0,17}$/.test(network)) return "has a bad `network`";
  if (typeof amount !== "string" || !UINT.test(amount)) return "has a bad `amount`";
  if (!isAddress(asset)) return "has a bad `asset`";
  if (!isAddress(payTo)) return "has a bad `payTo`";
  if (typeof maxTimeoutSeconds !== "number" || !(maxTimeoutSeconds > 0 && maxTimeoutSeconds <= MAX_TIMEOUT_SECONDS)) {
    return `must have a \`maxTimeoutSeconds\` above 0 and at most ${MAX_TIMEOUT_SECONDS}`;
  }
  if (!isRecord(extra) || typeof extra.name !== "string" || typeof extra.version !== "string") {
    return "has no `extra.name` and `extra.version`";
  }
  const method = extra.assetTransferMethod;
  if (method !== undefined && method !== "eip3009") return "asks for a transfer method that is not settled here";
  const flow = extra.paymentFlow;
  if (flow !== undefined && flow !== "authorization") return "asks for a payment flow that is not served here";
  const domain = { name: extra.name, version: extra.version };
  return { scheme, network: network as NetworkId, amount, asset, payTo, maxTimeoutSeconds, extra: domain };
}

function isAddress(value: unknown): value is Address {
  return typeof value === "string" && ADDRESS.test(value);
}

function canonical({ network, amount, asset, payTo, extra }: PaymentOption): readonly string[] {
  return ["exact", network, amount, asset.toLowerCase(), payTo.toLowerCase(), extra.name, extra.version];
}

function digestOf(
  { authorization, signature }: Pick<DecodedPayment, "authorization" | "signature">,
  option: PaymentOption,
): Uint8Array {
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const signed = [from.toLowerCase(), to.toLowerCase(), `${value}`, `${validAfter}`, `${validBefore}`, nonce];
  return sha256(utf8ToBytes(JSON.stringify([canonical(option), signed, bytesToHex(signature)])));
}

function malformed(message: string): ReadRequest {
  return { kind: "malformed", message };
}

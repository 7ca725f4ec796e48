import { base, createMessage, service } from "@turnpike/proto";
import { addressFault } from "../../state/addresses.ts";
import { goQuoted, goTypeOfValue } from "../../state/go-text.ts";
import { fail, type TxFault } from "../../state/outcome.ts";
import { STAKE_DENOM } from "../../state/stakes.ts";
import { readCoins } from "../bank/coins.ts";
import { authorityFault } from "../shared/params.ts";
import { SERVICE } from "./errors.ts";

const LEAST_FEE = 1n;
const FEE = "add_service_fee";
const TARGET = "target_num_relays";

/** The parameters of a genesis that names none. */
export const DEFAULT_SERVICE_PARAMS: service.Params = createMessage(service.ParamsSchema, {
  addServiceFee: createMessage(base.CoinSchema, { denom: STAKE_DENOM, amount: LEAST_FEE.toString() }),
  targetNumRelays: 100_000n,
});

const invalid = (text: string): TxFault => fail(SERVICE.paramInvalid, text).fault;

/** What adding a service costs, in upokt. */
export function addServiceFee({ addServiceFee: fee }: service.Params): bigint {
  return fee === undefined ? 0n : (readCoins([fee])?.[0]?.amount ?? 0n);
}

function feeFault(fee: base.Coin | undefined): TxFault | undefined {
  if (fee === undefined) return invalid(`missing ${FEE}`);
  if (fee.denom !== STAKE_DENOM) return invalid(`invalid ${FEE} denom: ${fee.denom}`);
  const amount = readCoins([fee])?.[0]?.amount;
  if (amount !== undefined && amount >= LEAST_FEE) return undefined;
  return invalid(`${FEE} param is below minimum value ${LEAST_FEE}${STAKE_DENOM}: got ${fee.amount}${fee.denom}`);
}

function targetFault(target: bigint): TxFault | undefined {
  return target < 1n ? invalid(`${TARGET} must be greater than 0: got ${target}`) : undefined;
}

/** What is wrong with a whole set of parameters; undefined when nothing is. */
export function serviceParamsFault(params: service.Params): TxFault | undefined {
  return feeFault(params.addServiceFee) ?? targetFault(params.targetNumRelays);
}

/** What is wrong with the change of one parameter, before any state is asked. */
export function updateParamFault({ authority, name, asType }: service.MsgUpdateParam): TxFault | undefined {
  const address = addressFault(authority);
  if (address !== undefined) {
    return fail(SERVICE.invalidAddress, `invalid authority address ${authority}; (${address})`).fault;
  }
  if (asType.case === undefined) return invalid("missing param AsType");
  if (name === FEE) {
    if (asType.case === "asCoin") return feeFault(asType.value);
    const [wanted, got] = [goTypeOfValue("asCoin"), goTypeOfValue(asType.case)];
    return invalid(`invalid type for param ${goQuoted(name)}; expected ${wanted}, got ${got}`);
  }
  // The chain does not ask for the type of this one: another has no number, so it is zero.
  if (name === TARGET) return targetFault(asType.case === "asUint64" ? asType.value : 0n);
  return invalid(`unsupported param ${goQuoted(name)}`);
}

/** What is wrong with the change of all parameters, before any state is asked. */
export function updateParamsFault({ authority, params }: service.MsgUpdateParams): TxFault | undefined {
  return authorityFault(authority) ?? serviceParamsFault(params ?? createMessage(service.ParamsSchema));
}

/** The parameters with one changed, by a message that {@link updateParamFault} finds right. */
export function withParam(params: service.Params, { asType }: service.MsgUpdateParam): service.Params {
  if (asType.case === "asCoin") return createMessage(service.ParamsSchema, { ...params, addServiceFee: asType.value });
  if (asType.case !== "asUint64") return params;
  return createMessage(service.ParamsSchema, { ...params, targetNumRelays: asType.value });
}

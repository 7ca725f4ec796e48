import type { AccountAddress } from "@turnpike/base";
import { createMessage, service, shared, typeUrlOf } from "@turnpike/proto";
import { accountBytes, addressFault } from "../../state/addresses.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { failStatus } from "../../state/grpc-status.ts";
import { type MessageHandler, messageHandler } from "../../state/module.ts";
import { done, fail, type Outcome, type TxFault } from "../../state/outcome.ts";
import { createParsed, type Parsed } from "../../state/parsed.ts";
import { STAKE_DENOM } from "../../state/stakes.ts";
import { spendableUpokt } from "../bank/balances.ts";
import { sendCoinsToModule } from "../bank/transfers.ts";
import { pastOwners } from "../session/history.ts";
import { type ParamMessageOptions, wrongAuthorityText } from "../shared/messages.ts";
import { serviceFault } from "../shared/services.ts";
import { noteComputeUnits, noteFirstComputeUnits } from "./compute-units.ts";
import { SERVICE } from "./errors.ts";
import { addServiceFee, serviceParamsFault, updateParamFault, updateParamsFault, withParam } from "./params.ts";
import { getService, getServiceParams, SERVICE_MODULE, serviceParams, services } from "./state.ts";

function serviceOf(message: service.MsgAddService): shared.Service {
  return message.service ?? createMessage(shared.ServiceSchema);
}

function addServiceFault(message: service.MsgAddService): TxFault | undefined {
  const { ownerAddress: signer } = message;
  const address = addressFault(signer);
  if (address !== undefined) {
    return fail(SERVICE.invalidAddress, `invalid signer address ${signer}; (${address})`).fault;
  }
  const added = serviceOf(message);
  if (added.ownerAddress !== signer) {
    const text = `service owner address ${goQuoted(added.ownerAddress)} does not match the signer address ${goQuoted(signer)}`;
    return fail(SERVICE.invalidOwnerAddress, text).fault;
  }
  return serviceFault(added);
}

function updateService(ctx: Context, found: Parsed<shared.Service>, given: Parsed<shared.Service>): Outcome<undefined> {
  if (found.ownerAddress !== given.ownerAddress) {
    const text = `existing owner address ${goQuoted(found.ownerAddress)} does not match the new owner address ${goQuoted(given.ownerAddress)}`;
    return failStatus("InvalidArgument", fail(SERVICE.invalidOwnerAddress, text).fault.text);
  }
  const { name, computeUnitsPerRelay, metadata = found.metadata } = given;
  const init = { ...found, name, computeUnitsPerRelay, ...(metadata === undefined ? {} : { metadata }) };
  services.set(ctx, found.id, createParsed(shared.ServiceSchema, init));
  if (found.computeUnitsPerRelay !== computeUnitsPerRelay) {
    noteComputeUnits(ctx, found.id, found.computeUnitsPerRelay, computeUnitsPerRelay);
  }
  return done(undefined);
}

function payFee(ctx: Context, ownerAddress: AccountAddress): Outcome<undefined> {
  const owner = accountBytes(ownerAddress);
  const lacking = (text: string): Outcome<undefined> =>
    failStatus("FailedPrecondition", fail(SERVICE.notEnoughFunds, text).fault.text);
  const balance = spendableUpokt(ctx, owner);
  if (balance === undefined) return lacking("account has no spendable coins");
  const amount = addServiceFee(getServiceParams(ctx));
  if (balance <= amount) {
    // The text's amount is read again.
    getServiceParams(ctx);
    return lacking(`account has ${balance}, but the service fee is ${amount}${STAKE_DENOM}`);
  }
  const paid = sendCoinsToModule(ctx, owner, SERVICE_MODULE, [{ denom: STAKE_DENOM, amount }]);
  if (paid.ok) return paid;
  const text = `account has ${balance}, failed to deduct ${amount}${STAKE_DENOM}`;
  return failStatus("Internal", fail(SERVICE.failedToDeductFee, text).fault.text);
}

/** Adds a service for a fee, or changes one that is there for nothing. Neither has an event of its own. */
function addService(ctx: Context, message: Parsed<service.MsgAddService>): Outcome<service.MsgAddServiceResponse> {
  const { ownerAddress, service: given = createParsed(shared.ServiceSchema, { ownerAddress }) } = message;
  const found = getService(ctx, given.id);
  const made = found === undefined ? payFee(ctx, ownerAddress) : updateService(ctx, found, given);
  if (!made.ok) return made;
  if (found === undefined) {
    services.set(ctx, given.id, given);
    noteFirstComputeUnits(ctx, given.id, given.computeUnitsPerRelay);
  }
  return done(createMessage(service.MsgAddServiceResponseSchema));
}

function transferFault({ ownerAddress, serviceId, newOwnerAddress }: service.MsgTransferService): TxFault | undefined {
  const parties = [
    ["owner", ownerAddress],
    ["new owner", newOwnerAddress],
  ] as const;
  for (const [which, text] of parties) {
    const why = addressFault(text);
    if (why !== undefined) return fail(SERVICE.invalidAddress, `invalid ${which} address ${text}; (${why})`).fault;
  }
  if (serviceId === "") return fail(SERVICE.missingId, "service ID cannot be empty").fault;
  if (ownerAddress !== newOwnerAddress) return undefined;
  const text = "new owner address cannot be the same as the current owner address";
  return fail(SERVICE.invalidOwnerAddress, text).fault;
}

function transfer(
  ctx: Context,
  message: Parsed<service.MsgTransferService>,
): Outcome<service.MsgTransferServiceResponse> {
  const { ownerAddress, serviceId, newOwnerAddress } = message;
  const found = getService(ctx, serviceId);
  if (found === undefined) {
    return failStatus("NotFound", fail(SERVICE.notFound, `service ${goQuoted(serviceId)} not found`).fault.text);
  }
  if (found.ownerAddress !== ownerAddress) {
    const text = `signer ${goQuoted(ownerAddress)} is not the owner of service ${goQuoted(serviceId)} (owner: ${goQuoted(found.ownerAddress)})`;
    return failStatus("PermissionDenied", fail(SERVICE.unauthorized, text).fault.text);
  }
  pastOwners.note(ctx, serviceId, found.ownerAddress);
  services.set(ctx, serviceId, createParsed(shared.ServiceSchema, { ...found, ownerAddress: newOwnerAddress }));
  return done(createMessage(service.MsgTransferServiceResponseSchema));
}

function changeParams(
  ctx: Context,
  message: service.MsgUpdateParam,
  authority: string,
): Outcome<service.MsgUpdateParamResponse> {
  if (message.authority !== authority) {
    return failStatus("InvalidArgument", wrongAuthorityText(SERVICE.invalidSigner, authority, message.authority));
  }
  const changed = withParam(getServiceParams(ctx), message);
  const fault = serviceParamsFault(changed);
  if (fault !== undefined) return failStatus("InvalidArgument", fault.text);
  serviceParams.set(ctx, undefined, changed);
  return done(createMessage(service.MsgUpdateParamResponseSchema));
}

/** Handlers of the module's messages, by type URL. */
export function serviceMessages({ authority }: ParamMessageOptions): Record<string, MessageHandler> {
  return {
    [typeUrlOf(service.MsgAddServiceSchema)]: messageHandler(
      service.MsgAddServiceSchema,
      service.MsgAddServiceResponseSchema,
      { signers: (message) => [message.ownerAddress], validate: addServiceFault, run: addService },
    ),
    [typeUrlOf(service.MsgTransferServiceSchema)]: messageHandler(
      service.MsgTransferServiceSchema,
      service.MsgTransferServiceResponseSchema,
      { signers: (message) => [message.ownerAddress], validate: transferFault, run: transfer },
    ),
    [typeUrlOf(service.MsgUpdateParamsSchema)]: messageHandler(
      service.MsgUpdateParamsSchema,
      service.MsgUpdateParamsResponseSchema,
      {
        signers: (message) => [message.authority],
        validate: updateParamsFault,
        run(ctx, message) {
          if (message.authority !== authority) {
            const text = wrongAuthorityText(SERVICE.invalidSigner, authority, message.authority);
            return failStatus("PermissionDenied", text);
          }
          // The real chain's log line reads the old ones.
          serviceParams.chargeRead(ctx, undefined);
          serviceParams.set(ctx, undefined, message.params ?? createMessage(service.ParamsSchema));
          return done(createMessage(service.MsgUpdateParamsResponseSchema));
        },
      },
    ),
    [typeUrlOf(service.MsgUpdateParamSchema)]: messageHandler(
      service.MsgUpdateParamSchema,
      service.MsgUpdateParamResponseSchema,
      {
        signers: (message) => [message.authority],
        validate: updateParamFault,
        run: (ctx, message) => changeParams(ctx, message, authority),
      },
    ),
  };
}

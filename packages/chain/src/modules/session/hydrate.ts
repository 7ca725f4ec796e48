import { bytesToUtf8 } from "@turnpike/base";
import { type application, createMessage, session, type shared } from "@turnpike/proto";
import { activeApplicationConfigs, sessionAt, sessionId, sessionPreimage } from "@turnpike/protocol";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { done, fail, type Outcome } from "../../state/outcome.ts";
import { getApplication } from "../application/state.ts";
import { serviceIdFault } from "../shared/services.ts";
import { getSharedParamsAt } from "../shared/state.ts";
import { getDehydratedSupplier, serviceConfigs, suppliers as stakedSuppliers } from "../supplier/state.ts";
import { drawnSuppliers } from "./drawn.ts";
import { SESSION } from "./errors.ts";
import { SessionFacts } from "./facts.ts";
import { getBlockHash } from "./state.ts";

function stakedApplication(
  ctx: Context,
  header: session.SessionHeader,
  height: bigint,
): Outcome<application.Application> {
  const { applicationAddress: address, serviceId } = header;
  const found = getApplication(ctx, address);
  const facts = new SessionFacts(ctx, header);
  if (found === undefined || !facts.wasApplicationStaked()) {
    const text = `could not find app with address ${goQuoted(address)} at height ${header.sessionStartBlockHeight}`;
    return fail(SESSION.applicationNotFound, text);
  }
  if (!facts.wasApplicationActive()) {
    const text = `application ${goQuoted(address)} is not active for session ${header.sessionId}`;
    return fail(SESSION.applicationNotActive, text);
  }
  const configs = activeApplicationConfigs(found.serviceConfigs, found.serviceConfigHistory, height);
  if (configs.some((config) => config.serviceId === serviceId)) return done(found);
  const text = `application ${goQuoted(address)} not staked for service ID ${goQuoted(serviceId)}`;
  return fail(SESSION.applicationNotStaked, text);
}

function sessionSupplier(
  ctx: Context,
  serviceId: string,
  { operatorAddress, activationHeight }: SessionSupplier,
): shared.Supplier[] {
  const supplier = getDehydratedSupplier(ctx, operatorAddress);
  const config = serviceConfigs.get(ctx, [serviceId, [activationHeight, operatorAddress]]);
  if (supplier === undefined || config === undefined) return [];
  return [{ ...supplier, services: config.service === undefined ? [] : [config.service] }];
}

/** A supplier of a session: the key of its configuration for the session's service. */
export interface SessionSupplier {
  readonly operatorAddress: string;
  readonly activationHeight: bigint;
}

/** A session without what its suppliers staked and serve: what claims and proofs ask for. */
export interface SessionOutline {
  readonly header: session.SessionHeader;
  readonly number: bigint;
  readonly numBlocksPerSession: bigint;
  readonly application: application.Application;
  /** In the session's order. */
  readonly suppliers: readonly SessionSupplier[];
}

/**
 * The session of an application and a service that a height belongs to: id, application and suppliers in their order.
 * The application is read as it is now; which suppliers are drawn, and whether the application is staked for the service,
 * is given by the height (recorded, surprise 3).
 *
 * Faults are those of codespace `session`.
 */
export function outlineSession(
  ctx: Context,
  applicationAddress: string,
  serviceId: string,
  height: bigint,
): Outcome<SessionOutline> {
  const newest = ctx.block.heightBlocks;
  if (height > newest) {
    return fail(SESSION.hydration, `block height ${height} is ahead of the last committed block height ${newest}`);
  }
  const before = ctx.gas.used;
  const params = getSharedParamsAt(ctx, height);
  const paramsGas = ctx.gas.used - before;
  const { startHeight, endHeight, number } = sessionAt(params, height);
  const idFault = serviceIdFault(serviceId);
  if (idFault !== undefined) return fail(SESSION.hydration, idFault.text);
  const blockHash = getBlockHash(ctx, startHeight);
  // The real chain reads them once more for the session's id.
  ctx.gas.consume(paramsGas, "ReadPerByte");
  const preimage = sessionPreimage({ blockHash, serviceId, applicationAddress, startHeight });
  const header = createMessage(session.SessionHeaderSchema, {
    applicationAddress,
    serviceId,
    sessionId: sessionId(preimage),
    sessionStartBlockHeight: startHeight,
    sessionEndBlockHeight: endHeight,
  });
  const staked = stakedApplication(ctx, header, height);
  if (!staked.ok) return staked;
  const drawn = drawnSuppliers(ctx, header, preimage, height);
  if (drawn.length === 0) {
    const text = `could not find suppliers for service ${serviceId} at height ${startHeight}`;
    return fail(SESSION.suppliersNotFound, text);
  }
  const suppliers = drawn.map(({ operator, activationHeight }) => ({
    operatorAddress: bytesToUtf8(operator) ?? "",
    activationHeight,
  }));
  // The real chain reads all of them for every claim and every proof.
  if (ctx.mode !== "query")
    for (const { operatorAddress } of suppliers) stakedSuppliers.chargeRead(ctx, operatorAddress);
  const { numBlocksPerSession } = params;
  return done({ header, number, numBlocksPerSession, application: staked.value, suppliers });
}

/**
 * The whole session that {@link outlineSession} outlines: the application as it was in the session, each supplier
 * with its stake as it is now, and with its configuration for this service alone.
 */
export function hydrateSession(
  ctx: Context,
  applicationAddress: string,
  serviceId: string,
  height: bigint,
): Outcome<session.Session> {
  const outline = outlineSession(ctx, applicationAddress, serviceId, height);
  if (!outline.ok) return outline;
  const { header, number, numBlocksPerSession, application, suppliers } = outline.value;
  return done(
    createMessage(session.SessionSchema, {
      header,
      sessionId: header.sessionId,
      sessionNumber: number,
      numBlocksPerSession,
      application: new SessionFacts(ctx, header).shownApplication(application),
      suppliers: suppliers.flatMap((supplier) => sessionSupplier(ctx, serviceId, supplier)),
    }),
  );
}

import type { SettlementId } from "@turnpike/base";
import type { PaymentStage } from "@turnpike/payment";
import { errorAnswer, jsonAnswer } from "../http/answer.ts";
import type { SystemRoute, SystemRoutes } from "../http/system-routes.ts";
import type { Readiness } from "./readiness.ts";

const NO_STORE = ["Cache-Control", "no-store"];
const SETTLEMENT_ID = /^[A-Za-z0-9_-]{1,128}$/;

/** Health, readiness, and the state of settlements. */
export function monitoringRoutes(modules: {
  readonly readiness: Readiness;
  readonly payment: PaymentStage;
}): SystemRoutes {
  const { readiness, payment } = modules;
  const health: SystemRoute = { group: "monitoring", get: () => jsonAnswer(200, { status: "ok" }) };
  const ready: SystemRoute = {
    group: "monitoring",
    async get() {
      const missing = await readiness.gateway();
      return missing.length === 0
        ? jsonAnswer(200, { ready: true })
        : { ...jsonAnswer(503, { ready: false, missing }, [...NO_STORE, "Retry-After", "1"]), result: "NOT_READY" };
    },
  };
  const readyService: SystemRoute = {
    group: "monitoring",
    async get({ requestId }, service) {
      const missing = await readiness.service(service);
      if (missing === undefined) return errorAnswer("UNKNOWN_SERVICE", requestId);
      if (missing.length === 0) return jsonAnswer(200, { ready: true, service });
      const answer = jsonAnswer(503, { ready: false, service, missing }, [...NO_STORE, "Retry-After", "1"]);
      return { ...answer, result: "NOT_READY" };
    },
  };
  const settlement: SystemRoute = {
    group: "discovery",
    async get({ requestId }, id) {
      const status = SETTLEMENT_ID.test(id) ? await payment.status(id as SettlementId) : undefined;
      return status === undefined ? errorAnswer("NOT_FOUND", requestId) : jsonAnswer(200, status);
    },
  };
  return {
    exact: new Map([
      ["/health", health],
      ["/ready", ready],
    ]),
    folders: new Map([
      ["/ready/", readyService],
      ["/settlements/", settlement],
    ]),
  };
}

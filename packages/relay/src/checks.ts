import type { Operation, Service } from "@turnpike/catalogue";
import { checkParams, checkResult } from "@turnpike/catalogue";
import type { SchemaCheck } from "@turnpike/protocol";

/** What is wrong with the parameters of an operation, in words that are safe to show; undefined when they fit. */
export function paramsFault(service: Service, operation: Operation, params: unknown): string | undefined {
  const check = checkParams(service, operation.name, params);
  return check.ok ? undefined : `\`${check.path.slice(0, 120)}\` ${check.message.slice(0, 200)}.`;
}

/** Whether a result fits what the operation declares. */
export function resultFits(service: Service, operation: string, result: unknown): SchemaCheck | "failed" {
  return checkResult(service, operation, result);
}

/** The check of an error that is an answer: there is no result that the declared schema could be held against. */
export function errorCheck(service: Service, operation: string): SchemaCheck {
  return checkResult(service, operation, undefined) === "undeclared" ? "undeclared" : "unchecked";
}

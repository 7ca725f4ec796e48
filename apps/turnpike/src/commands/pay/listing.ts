import { AppError, decimalToUnits, isRecord, nearest } from "@turnpike/base";
import type { ListedService } from "@turnpike/client";

/** The id of a service that may have an appended path and query. */
const idOf = (service: string): string => service.split(/[/?]/, 1)[0] ?? "";

/** A body that a service takes, by the gateway's list; undefined where it shows none. */
export function exampleOf(service: string, listing: readonly ListedService[] | undefined): unknown {
  return listing?.find(({ id }) => id === idOf(service))?.example;
}

/** Maximum decimal places of an amount of US dollars. */
const USD_PLACES = 18;

/** Price of a service in US dollars, by the gateway's list; undefined where it shows none below `maxUsd`. */
export function listedPriceBelow(
  maxUsd: string,
  service: string,
  listing: readonly ListedService[] | undefined,
): string | undefined {
  const priceUsd = listing?.find(({ id }) => id === idOf(service))?.priceUsd;
  if (priceUsd === undefined) return undefined;
  return decimalToUnits(priceUsd, USD_PLACES) < decimalToUnits(maxUsd, USD_PLACES) ? priceUsd : undefined;
}

function servedText(listing: readonly ListedService[]): string {
  const ids = listing.filter(({ serves, paid }) => serves && paid).map(({ id }) => id);
  if (ids.length === 0) return "The gateway serves nothing now.";
  return `The gateway serves now: ${ids.slice(0, 10).join(", ")}${ids.length > 10 ? ` and ${ids.length - 10} more` : ""}.`;
}

/** Paths are matched by the gateway alone: theirs are patterns. */
function assertSold({ id, methods }: ListedService, body: string | undefined): void {
  const call: unknown = JSON.parse(body ?? "{}");
  const method = isRecord(call) ? call.method : undefined;
  const names = methods.filter((name) => !name.includes(" "));
  if (typeof method !== "string" || method.includes(" ") || names.length === 0 || names.includes(method)) return;
  const guess = nearest(method, names);
  throw new AppError("METHOD_NOT_ALLOWED", {
    message:
      `${id} does not sell ${JSON.stringify(method.slice(0, 100))}; nothing was signed.` +
      `${guess === undefined ? "" : ` Did you mean ${guess}?`} --anyway asks all the same.`,
  });
}

/**
 * Holds that a gateway's list has a service that is sold and, unless `anyway`, that the method of the JSON `body` is and
 * that it is served now.
 * @throws AppError UNKNOWN_SERVICE, METHOD_NOT_ALLOWED, NO_SUPPLIERS; nothing was signed.
 */
export function assertServed(
  service: string,
  listing: readonly ListedService[],
  opts: { readonly gateway: string; readonly anyway: boolean; readonly body: string | undefined },
): void {
  const id = idOf(service);
  const found = listing.find((one) => one.id === id);
  if (found === undefined) {
    const guess = nearest(
      id,
      listing.map((one) => one.id),
    );
    throw new AppError("UNKNOWN_SERVICE", {
      message:
        `${opts.gateway} has no service ${JSON.stringify(id)}; nothing was signed.` +
        `${guess === undefined ? "" : ` Did you mean ${guess}?`}`,
    });
  }
  if (!found.paid) {
    const free = found.relayUrl === undefined ? "" : ` It is free at ${found.relayUrl}.`;
    throw new AppError("UNKNOWN_SERVICE", { message: `${id} is not sold; nothing was signed.${free}` });
  }
  if (opts.anyway) return;
  // with a path after it, that is the method
  if (service === id) assertSold(found, opts.body);
  if (found.serves) return;
  throw new AppError("NO_SUPPLIERS", {
    message: `No supplier serves ${id} now; nothing was signed. ${servedText(listing)} --anyway asks all the same.`,
  });
}

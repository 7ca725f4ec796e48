import type { ServiceId } from "@turnpike/base";
import type { Catalogue, Service } from "./types.ts";

/**
 * A catalogue of whose services only some are sold. The others are what they were on the free relay; what does not change
 * stays the same object.
 */
export function withSale(catalogue: Catalogue, isSold: (id: ServiceId) => boolean): Catalogue {
  const services = new Map<ServiceId, Service>();
  for (const [id, service] of catalogue.services) {
    services.set(id, !service.paid || isSold(id) ? service : Object.freeze({ ...service, paid: false }));
  }
  return { services, get: (id) => services.get(id as ServiceId) };
}

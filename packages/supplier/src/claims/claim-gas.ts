import { encodeMessage, shared } from "@turnpike/proto";
import { receiversGas } from "@turnpike/protocol";

/** Gas of reading a configuration: an entry of the state, and each of its bytes. */
const CONFIG_GAS = 5_000n;
const CONFIG_GAS_PER_BYTE = 3n;

/**
 * Gas that a claim costs on this chain beyond the usual, by its supplier's configurations for the service. The one with the most
 * receivers counts: it may be that of the session.
 */
export function configsGas({ services, serviceConfigHistory }: shared.Supplier, serviceId: string): bigint {
  const history = serviceConfigHistory.filter(({ service }) => service?.serviceId === serviceId);
  const configs = [
    ...services.filter((service) => service.serviceId === serviceId),
    ...history.flatMap(({ service }) => service ?? []),
  ];
  const receivers = configs.reduce((most, { revShare }) => Math.max(most, revShare.length), 0);
  return history.reduce(
    (sum, config) =>
      sum + CONFIG_GAS + CONFIG_GAS_PER_BYTE * BigInt(encodeMessage(shared.ServiceConfigUpdateSchema, config).length),
    receiversGas(receivers),
  );
}

import { refuse } from "@turnpike/chain";
import { ACCOUNT_PREFIX } from "@turnpike/crypto";
import { baseReflectionV2, createMessage, baseReflection as v1beta1 } from "@turnpike/proto";
import { type ApiMethod, type ApiModules, answered, apiMethod } from "./api-method.ts";

const MESSAGE_INTERFACE = "cosmos.base.v1beta1.Msg";
const TX_NAME = "cosmos.tx.v1beta1.Tx";
const SIGN_DIRECT = { name: "SIGN_MODE_DIRECT", number: 1 } as const;

/** What the chain says of itself. */
export interface AppFacts {
  /** gRPC paths of the modules' queries. */
  readonly queryPaths: readonly string[];
  /** Type URLs of the messages that transactions may hold. */
  readonly messageTypeUrls: readonly string[];
}

/** Paths by their service, both in alphabetical order. */
export function pathsByService(paths: Iterable<string>): Map<string, string[]> {
  const services = new Map<string, string[]>();
  for (const path of [...paths].sort()) {
    const [, service = ""] = path.split("/");
    services.set(service, [...(services.get(service) ?? []), path]);
  }
  return services;
}

const nameOf = (typeUrl: string): string => typeUrl.slice(1);

function interfaceMethods({ messageTypeUrls }: AppFacts): Record<string, ApiMethod> {
  const path = (name: string): string => `/cosmos.base.reflection.v1beta1.ReflectionService/${name}`;
  return {
    [path("ListAllInterfaces")]: apiMethod(
      v1beta1.ListAllInterfacesRequestSchema,
      v1beta1.ListAllInterfacesResponseSchema,
      () => answered(createMessage(v1beta1.ListAllInterfacesResponseSchema, { interfaceNames: [MESSAGE_INTERFACE] })),
    ),
    [path("ListImplementations")]: apiMethod(
      v1beta1.ListImplementationsRequestSchema,
      v1beta1.ListImplementationsResponseSchema,
      ({ interfaceName }) => {
        if (interfaceName === "") return refuse("InvalidArgument", "invalid interface name");
        const implementationMessageNames = interfaceName === MESSAGE_INTERFACE ? [...messageTypeUrls].sort() : [];
        return answered(createMessage(v1beta1.ListImplementationsResponseSchema, { implementationMessageNames }));
      },
    ),
  };
}

/** `cosmos.base.reflection.v1beta1` and `v2alpha1`, by gRPC path. */
export function appReflectionService(facts: AppFacts, { application }: ApiModules): Record<string, ApiMethod> {
  const v2 = baseReflectionV2;
  const path = (name: string): string => `/cosmos.base.reflection.v2alpha1.ReflectionService/${name}`;
  const messages = [...facts.messageTypeUrls].sort();
  const implementers = messages.map((typeUrl) => ({ fullname: nameOf(typeUrl), typeUrl }));
  const services = [...pathsByService(facts.queryPaths)].map(([fullname, paths]) => ({
    fullname,
    isModule: true,
    methods: paths.map((fullQueryPath) => ({ name: fullQueryPath.split("/")[2] ?? "", fullQueryPath })),
  }));
  return {
    ...interfaceMethods(facts),
    [path("GetAuthnDescriptor")]: apiMethod(
      v2.GetAuthnDescriptorRequestSchema,
      v2.GetAuthnDescriptorResponseSchema,
      () => answered(createMessage(v2.GetAuthnDescriptorResponseSchema, { authn: { signModes: [SIGN_DIRECT] } })),
    ),
    [path("GetChainDescriptor")]: apiMethod(
      v2.GetChainDescriptorRequestSchema,
      v2.GetChainDescriptorResponseSchema,
      () => answered(createMessage(v2.GetChainDescriptorResponseSchema, { chain: { id: application.chainId } })),
    ),
    [path("GetCodecDescriptor")]: apiMethod(
      v2.GetCodecDescriptorRequestSchema,
      v2.GetCodecDescriptorResponseSchema,
      () =>
        answered(
          createMessage(v2.GetCodecDescriptorResponseSchema, {
            codec: { interfaces: [{ fullname: MESSAGE_INTERFACE, interfaceImplementers: implementers }] },
          }),
        ),
    ),
    [path("GetConfigurationDescriptor")]: apiMethod(
      v2.GetConfigurationDescriptorRequestSchema,
      v2.GetConfigurationDescriptorResponseSchema,
      () =>
        answered(
          createMessage(v2.GetConfigurationDescriptorResponseSchema, {
            config: { bech32AccountAddressPrefix: ACCOUNT_PREFIX },
          }),
        ),
    ),
    [path("GetQueryServicesDescriptor")]: apiMethod(
      v2.GetQueryServicesDescriptorRequestSchema,
      v2.GetQueryServicesDescriptorResponseSchema,
      () =>
        answered(createMessage(v2.GetQueryServicesDescriptorResponseSchema, { queries: { queryServices: services } })),
    ),
    [path("GetTxDescriptor")]: apiMethod(v2.GetTxDescriptorRequestSchema, v2.GetTxDescriptorResponseSchema, () =>
      answered(
        createMessage(v2.GetTxDescriptorResponseSchema, {
          tx: { fullname: TX_NAME, msgs: messages.map((msgTypeUrl) => ({ msgTypeUrl })) },
        }),
      ),
    ),
  };
}

/** Where npm packages say that they are published. */

import { trimEndOf } from "@turnpike/base";
import { encodePath } from "./walk.ts";

/** What is used of a `package.json`. The file is untrusted: every field is checked. */
export interface PackagePlace {
  /** Web page of the repository, without `/` at its end; undefined without one. */
  readonly repository: string | undefined;
  /** Folder of the package in it; empty at the root. */
  readonly directory: string;
  /** True for forges whose addresses of files are known. */
  readonly forge: boolean;
  readonly homepage: string | undefined;
}

const SHORT_HOSTS: Readonly<Record<string, string>> = {
  github: "github.com",
  gitlab: "gitlab.com",
  bitbucket: "bitbucket.org",
  codeberg: "codeberg.org",
};
const FORGES = new Set(["github.com", "gitlab.com", "codeberg.org"]);
const MAX_CHARS = 2_048;

/** Reads `homepage` and `repository` of a package.json. */
export function placeOf(manifest: Readonly<Record<string, unknown>>): PackagePlace {
  const { repository: field, homepage } = manifest;
  const written = typeof field === "string" ? field : member(field, "url");
  const found = typeof written === "string" ? repositoryPage(written) : undefined;
  const directory = member(field, "directory");
  const folder = typeof directory === "string" ? cleanFolder(directory) : "";
  return {
    repository: found?.page,
    directory: folder || (found?.directory ?? ""),
    forge: found?.forge ?? false,
    homepage: typeof homepage === "string" ? webAddress(homepage) : undefined,
  };
}

/** Address of a package's file; undefined when the package names no place. `readme` is true for its README. */
export function publishedUrl(place: PackagePlace, path: string, readme: boolean): string | undefined {
  const { repository, directory, forge, homepage } = place;
  if (repository !== undefined && forge) {
    if (readme)
      return directory === "" ? `${repository}#readme` : `${repository}/tree/HEAD/${encodePath(directory)}#readme`;
    return `${repository}/blob/HEAD/${encodePath(directory === "" ? path : `${directory}/${path}`)}`;
  }
  const page = homepage ?? repository;
  if (page === undefined || readme) return page;
  return `${page.split("#", 1)[0]}#${encodePath(path)}`;
}

/**
 * Web page of a repository, out of the forms that package.json knows: `git+https:`, `git:`, `git+ssh:`,
 * `git@host:owner/name.git`, `github:owner/name`, `owner/name`, and pages of a folder within it.
 */
export function repositoryPage(
  written: string,
): { readonly page: string; readonly directory: string; readonly forge: boolean } | undefined {
  const text = written.trim();
  if (text.length > MAX_CHARS) return undefined;
  const short = /^(?:(github|gitlab|bitbucket|codeberg):)?([\w.-]+)\/([\w.-]+?)(?:\.git)?(?:#.*)?$/.exec(text);
  const [, host = "github", owner, name] = short ?? [];
  if (owner !== undefined && name !== undefined) return pageAt(SHORT_HOSTS[host] ?? "", [owner, name]);
  const remote = /^(?:ssh:\/\/)?[\w.-]+@([\w.-]+):(?!\d+\/)([^\s#]+)/.exec(text);
  if (remote !== null) return pageAt(remote[1] ?? "", (remote[2] ?? "").split("/"));
  const url = URL.parse(text.replace(/^git\+/, "").replace(/^(?:git|ssh):\/\//, "https://"));
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) return undefined;
  // A port of ssh or git is not one of the web.
  const host_ = text.startsWith("http") || text.startsWith("git+http") ? url.host : url.hostname;
  return pageAt(host_.replace(/^www\./, ""), url.pathname.split("/"), url.protocol);
}

function pageAt(host: string, names: readonly string[], protocol = "https:") {
  const parts = names.filter((name) => name !== "");
  const forge = FORGES.has(host);
  // GitLab has groups within groups; what follows `-` or `tree` is a place within the repository.
  const end = parts.findIndex((part, i) => i >= 2 && (part === "tree" || part === "blob" || part === "-"));
  const path = end < 0 ? (host === "gitlab.com" || !forge ? parts : parts.slice(0, 2)) : parts.slice(0, end);
  if (forge && path.length < 2) return undefined;
  const inside = end < 0 ? [] : parts.slice(parts[end] === "-" ? end + 3 : end + 2);
  const page = webAddress(`${forge ? "https:" : protocol}//${host}/${path.join("/").replace(/\.git$/, "")}`);
  if (page === undefined) return undefined;
  return { page: trimEndOf(page, "/"), directory: cleanFolder(decoded(inside.join("/"))), forge };
}

function webAddress(written: string): string | undefined {
  if (written.length > MAX_CHARS) return undefined;
  const url = URL.parse(written.trim());
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:") || url.hostname === "") return undefined;
  url.username = "";
  url.password = "";
  return url.href;
}

function cleanFolder(folder: string): string {
  const names = folder.split(/[/\\]/).filter((name) => name !== "" && name !== ".");
  return folder.length > MAX_CHARS || names.includes("..") ? "" : names.join("/");
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

function member(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}

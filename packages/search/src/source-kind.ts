import { statSync } from "node:fs";
import { basename } from "node:path";
import { AppError, trimEndOf } from "@turnpike/base";
import type { SafeFetcher } from "./fetching/types.ts";

/**
 * What a source is. `folder`: the files below it, or one file. `packages`: the documentation of npm packages below a `node_modules`.
 * `url`: a site from this page on. `sitemap`, `feed`: what it lists.
 */
export type SourceKind = "folder" | "packages" | "url" | "sitemap" | "feed";

const WEB = /^https?:\/\//i;
/** So much of an answer shows what it is. */
const HEAD_BYTES = 4_096;
/** What stands before a document's root: byte order mark, declarations, comments. */
const PROLOG = /^(?:\s|\ufeff|<\?[^>]*>|<!--[\s\S]*?-->|<!doctype[^>]*>)*/i;

/** What the beginning of a document is; undefined: neither a sitemap nor a feed. */
export function listingOf(head: string): "sitemap" | "feed" | undefined {
  const root = head.replace(PROLOG, "");
  if (/^<(?:\w+:)?(?:urlset|sitemapindex)[\s>]/i.test(root)) return "sitemap";
  if (/^<(?:\w+:)?(?:rss|feed|rdf)[\s>]/i.test(root)) return "feed";
  return /^\{\s*"version"\s*:\s*"https:\\?\/\\?\/jsonfeed\.org\//.test(root) ? "feed" : undefined;
}

async function headOf(url: string, fetcher: SafeFetcher, signal: AbortSignal | undefined): Promise<string | undefined> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  const sink = (piece: Uint8Array): boolean => {
    pieces.push(piece);
    size += piece.length;
    return size >= HEAD_BYTES;
  };
  const answer = await fetcher.fetch({ url, sink, signal });
  return answer.ok ? Buffer.concat(pieces).subarray(0, HEAD_BYTES).toString("utf8") : undefined;
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

/**
 * Finds out what a source is: a folder or a file that is there, or by the beginning of what its URL answers. A URL that gives no
 * answer is taken by its name.
 * @throws AppError SOURCE_REFUSED when it is neither a folder, a file nor a URL.
 */
export async function detectKind(target: string, fetcher: SafeFetcher, signal?: AbortSignal): Promise<SourceKind> {
  if (WEB.test(target)) {
    const isXml = URL.canParse(target) && /\.xml(?:\.gz)?$/i.test(new URL(target).pathname);
    const head = await headOf(target, fetcher, signal);
    const listing = head === undefined ? undefined : listingOf(head);
    return listing ?? (isXml ? "sitemap" : "url");
  }
  if (isFolder(target)) return basename(trimEndOf(target, "/\\")) === "node_modules" ? "packages" : "folder";
  if (isFile(target)) return "folder";
  throw new AppError("SOURCE_REFUSED", {
    message: `${target.slice(0, 200)} is neither a folder or file that is there nor an http:// or https:// URL.`,
  });
}

-- What a process sells for, as `<network> <asset> <payTo>` in lower case; empty where it sells nothing. Two ledgers that
-- sell for one receiver would each count the other's payments as their own.
alter table holders add column sells text[] not null default '{}';

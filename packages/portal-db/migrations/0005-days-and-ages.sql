-- Calls of an account by day: a day's quota too outlives the applications. What was a month's stands on its first day.
-- The gateway adds to it in the statement that writes usage: it knows the account also when the application is gone.

drop trigger add_account_usage on portal_application_usage;
drop function portal_private.add_account_usage();
alter table portal_private.account_usage rename column month to day;
grant insert, update on portal_private.account_usage to portal_gateway;

-- What has no end grows for ever. The audit still only grows for 30 days; what is older may go.

drop trigger only_grows on portal_private.audit;
create trigger only_grows before update or truncate on portal_private.audit
  for each statement execute function portal_private.refuse_change();

create function portal_private.refuse_young() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if old.at > now() - interval '30 days' then
    raise insufficient_privilege using
      message = format('%s only grows: what is younger than 30 days stays.', tg_table_name);
  end if;
  return old;
end
$$;
create trigger young_stays before delete on portal_private.audit
  for each row execute function portal_private.refuse_young();

-- Ids that were taken back without their end being known: longer than any token may live.
update portal_private.revoked_tokens set expires_at = revoked_at + interval '400 days' where expires_at is null;
alter table portal_private.revoked_tokens
  alter column expires_at set default now() + interval '400 days', alter column expires_at set not null;
create index revoked_tokens_end on portal_private.revoked_tokens (expires_at);

-- Removes at most so many rows of each kind that nobody needs, and gives their number. For the server, which has no
-- right to delete any row itself. Only one does it at a time.
create function portal_private.forget(audit_days integer, most integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  gone integer;
  total integer := 0;
begin
  if audit_days is null or audit_days < 30 then
    raise invalid_parameter_value using message = 'The audit is kept for 30 days at least.';
  end if;
  if not pg_try_advisory_xact_lock(hashtextextended('turnpike portal forget', 0)) then
    return 0;
  end if;
  delete from portal_private.audit where id in (
    select a.id from portal_private.audit a
    where a.at < now() - make_interval(days => audit_days) order by a.at limit most
  );
  get diagnostics gone = row_count;
  total := total + gone;
  -- A day for clocks that differ.
  delete from portal_private.revoked_tokens where token_id in (
    select t.token_id from portal_private.revoked_tokens t
    where t.expires_at < now() - interval '1 day' order by t.expires_at limit most
  );
  get diagnostics gone = row_count;
  total := total + gone;
  -- The longest quota is of a year.
  delete from portal_private.account_usage where (portal_account_id, day) in (
    select u.portal_account_id, u.day from portal_private.account_usage u
    where u.day < date_trunc('year', now() at time zone 'utc')::date - 1 limit most
  );
  get diagnostics gone = row_count;
  return total + gone;
end
$$;
revoke all on function portal_private.forget(integer, integer), portal_private.refuse_young() from public;
grant execute on function portal_private.forget(integer, integer) to portal_authenticator;

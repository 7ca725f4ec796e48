-- What the database keeps true by itself. Functions stand in portal_private and are run by triggers alone.
-- Each fixes its search path: the caller's could name other tables.

create function portal_private.touch() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  new.updated_at := clock_timestamp();
  return new;
end
$$;

do $$
declare
  name text;
begin
  foreach name in array array[
    'organizations', 'portal_accounts', 'portal_applications', 'portal_users', 'portal_application_rbac',
    'portal_application_usage'
  ] loop
    execute format(
      'create trigger touch before update on portal.%I for each row execute function portal_private.touch()', name
    );
  end loop;
end
$$;

-- Accounts that gained live applications must stay within their plan. Run after the statement: row security and the
-- foreign key have spoken by then, so it says nothing about accounts that the caller cannot reach.
-- Accounts are locked so that statements that run at once count each other's rows. The lock is the strongest that lets
-- foreign keys of the same account be checked: a stronger one would make two inserts wait for each other.
create function portal_private.check_applications(account_ids text[]) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  account record;
  used bigint;
begin
  for account in
    select a.portal_account_id as id, a.deleted_at, a.portal_plan_type as plan, p.plan_application_limit as most
    from portal.portal_accounts a join portal.portal_plans p using (portal_plan_type)
    where a.portal_account_id = any (account_ids)
    order by a.portal_account_id
    for no key update of a
  loop
    if account.deleted_at is not null then
      raise foreign_key_violation using
        message = 'insert or update on table "portal_applications" violates foreign key constraint'
          || ' "portal_applications_portal_account_id_fkey"',
        detail = 'The account is deleted.',
        schema = 'portal', table = 'portal_applications',
        constraint = 'portal_applications_portal_account_id_fkey';
    end if;
    continue when account.most is null;
    -- A statement of its own: it sees what was committed while the lock was waited for.
    select count(*) into used from portal.portal_applications
    where portal_account_id = account.id and deleted_at is null;
    if used > account.most then
      raise sqlstate 'PT409' using
        message = format(
          'The plan %s allows %s applications, and the account would have %s.', account.plan, account.most, used
        ),
        hint = 'Delete applications of the account, or choose another plan.';
    end if;
  end loop;
end
$$;

create function portal_private.applications_inserted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform portal_private.check_applications(
    array(select distinct portal_account_id::text from new_rows where deleted_at is null)
  );
  return null;
end
$$;

create function portal_private.applications_updated() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  account_ids text[] := array(
    select distinct n.portal_account_id::text from new_rows n
    where n.deleted_at is null and not exists (
      select from old_rows o
      where o.portal_application_id = n.portal_application_id
        and o.portal_account_id = n.portal_account_id and o.deleted_at is null
    )
  );
begin
  if cardinality(account_ids) > 0 then
    perform portal_private.check_applications(account_ids);
  end if;
  return null;
end
$$;

create trigger plan_of_inserted after insert on portal_applications
  referencing new table as new_rows for each statement execute function portal_private.applications_inserted();
create trigger plan_of_updated after update on portal_applications
  referencing old table as old_rows new table as new_rows
  for each statement execute function portal_private.applications_updated();

-- A token that is bound to an account may change the account's names and own limits, not what its operator sells it.
-- Rows out of its reach do not get here: row security has left them out.
create function portal_private.guard_account() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if (new.organization_id, new.portal_plan_type, new.billing_type, new.stripe_subscription_id, new.gcp_account_id,
      new.gcp_entitlement_id, new.deleted_at)
    is distinct from (old.organization_id, old.portal_plan_type, old.billing_type, old.stripe_subscription_id,
      old.gcp_account_id, old.gcp_entitlement_id, old.deleted_at)
  then
    raise insufficient_privilege using
      message = 'A token that is bound to an account cannot change its plan, organization or billing.';
  end if;
  return new;
end
$$;
create trigger guard before update on portal_accounts for each row
  when (nullif(current_setting('request.jwt.claims', true), '')::json ->> 'account_id' is not null)
  execute function portal_private.guard_account();

-- Calls of applications add up to those of their account, and never go down with a deleted application.
create function portal_private.add_account_usage() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  added bigint := new.calls - case when tg_op = 'UPDATE' then old.calls else 0 end;
begin
  if added > 0 then
    insert into portal_private.account_usage as u (portal_account_id, month, calls)
    select a.portal_account_id, date_trunc('month', new.day::timestamp)::date, added
    from portal.portal_applications a where a.portal_application_id = new.portal_application_id
    on conflict (portal_account_id, month) do update set calls = u.calls + excluded.calls;
  end if;
  return null;
end
$$;
create trigger add_account_usage after insert or update of calls on portal_application_usage
  for each row execute function portal_private.add_account_usage();

-- Who wrote which row. The arguments are the columns of the primary key.
create function portal_private.write_audit() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  claims json := nullif(current_setting('request.jwt.claims', true), '')::json;
  -- Set by SET ROLE; the current user is the owner of this function here.
  actor name := nullif(current_setting('role', true), 'none');
  before jsonb := case when tg_op = 'INSERT' then '{}'::jsonb else to_jsonb(old) end;
  after jsonb := case when tg_op = 'DELETE' then '{}'::jsonb else to_jsonb(new) end;
  kept jsonb := case when tg_op = 'DELETE' then before else after end;
  changed text[];
begin
  if tg_op <> 'DELETE' then
    select coalesce(array_agg(c.key order by c.key), '{}') into changed
    from jsonb_each(after) c
    where c.value is distinct from coalesce(before -> c.key, 'null'::jsonb)
      and c.key not in ('created_at', 'updated_at');
  end if;
  insert into portal_private.audit (role, token_id, token_account_id, table_name, operation, row_key, columns)
  values (
    coalesce(actor, session_user), claims ->> 'jti', claims ->> 'account_id', tg_table_name, tg_op,
    array(select kept ->> k.name from unnest(tg_argv) with ordinality k (name, place) order by k.place),
    coalesce(changed, '{}')
  );
  return null;
end
$$;

do $$
declare
  spot record;
begin
  for spot in
    select * from (values
      ('organizations', 'organization_id'), ('portal_accounts', 'portal_account_id'),
      ('portal_applications', 'portal_application_id'), ('portal_users', 'portal_user_id'),
      ('portal_account_rbac', 'id'), ('portal_application_rbac', 'id'),
      ('networks', 'network_id'), ('portal_plans', 'portal_plan_type')
    ) t (name, key)
  loop
    execute format(
      'create trigger write_audit after insert or update or delete on portal.%I'
        || ' for each row execute function portal_private.write_audit(%L)', spot.name, spot.key
    );
  end loop;
end
$$;

create function portal_private.refuse_change() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise insufficient_privilege using message = format('%s only grows.', tg_table_name);
end
$$;
create trigger only_grows before update or delete or truncate on portal_private.audit
  for each statement execute function portal_private.refuse_change();

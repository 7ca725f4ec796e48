-- Places of many payments by one statement, in their order. p_wallets: {"id", "network", "payer", "subjects"} of each.
create function admit_wallets(p_wallets json, p_retention interval) returns table (place bigint, admission text)
language plpgsql security definer set search_path from current as $$
declare
  wallets constant json[] := array(select w from json_array_elements(p_wallets) w);
  wanted record;
begin
  -- In the order of admit_wallet, for all before the first: else two statements could wait for each other.
  insert into wallet_risks (network, subject)
    select distinct w->>'network', s.subject from unnest(wallets) w,
      lateral (select json_array_elements_text(w->'subjects') union all select w->>'payer' union all select 'all') s (subject)
    order by 1, 2 on conflict do nothing;
  perform from wallet_risks where network in (select w->>'network' from unnest(wallets) w) and subject = 'all'
    order by network for update;
  for wanted in
    select w.ordinality, w.wallet->>'id' as id, w.wallet->>'network' as network, w.wallet->>'payer' as payer,
      array(select json_array_elements_text(w.wallet->'subjects')) as subjects
    from unnest(wallets) with ordinality w (wallet, ordinality) order by w.ordinality
  loop
    place := wanted.ordinality;
    admission := admit_wallet(wanted.id, wanted.network, wanted.payer, wanted.subjects, p_retention);
    return next;
  end loop;
end
$$;

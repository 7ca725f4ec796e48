-- Disputed payments are looked at once more when their window is closed for good, as released and failed ones are: a
-- re-organisation that took a settlement may have brought it back.
drop index payments_unswept;
create index payments_unswept on payments (network, valid_before)
  where state in ('released', 'failed', 'disputed') and not swept;

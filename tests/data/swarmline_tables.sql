-- What the statements of Swarmline 1.6.10 ask for: read by write_swarmline.py.
create table users (id integer primary key, external_id text unique, created_at timestamp default current_timestamp);
create table messages (id integer primary key, user_id integer, topic_id text, role text, content text, name text,
  tool_calls text, metadata text, content_blocks text, created_at timestamp default current_timestamp);
create table facts (id integer primary key, user_id integer, topic_id text, key text, value text, source text, updated_at timestamp default current_timestamp);
create unique index facts_of_topic on facts (user_id, topic_id, key) where topic_id is not null;
create unique index facts_of_user on facts (user_id, key) where topic_id is null;
create table summaries (user_id integer, topic_id text, summary text, messages_covered integer, version integer,
  created_at timestamp default current_timestamp, updated_at timestamp default current_timestamp, unique (user_id, topic_id));
create table goals (user_id integer, topic_id text, title text, target_amount integer, current_amount integer,
  phase text, is_main integer, plan text, status text, priority integer default 0, created_at timestamp default current_timestamp, unique (user_id, topic_id));
create table topics (user_id integer, topic_id text, role_id text, active_skill_ids text, title text, prompt_hash text,
  delegated_from text, delegation_turn_count integer, pending_delegation text, delegation_summary text, updated_at timestamp default current_timestamp,
  unique (user_id, topic_id));
create table phase_state (user_id integer unique, phase text, notes text, updated_at timestamp default current_timestamp);
create table tool_events (id integer primary key, user_id integer, topic_id text, tool_name text, input_json text,
  output_json text, latency_ms integer, created_at timestamp default current_timestamp);

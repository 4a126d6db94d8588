package configs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/api/tenant"
	"weir/router/fleet"
)

// replicas reads the list replicas of a model: where the servers are that compute it.
func (d *fileDecoder) replicas(n *yaml.Node, path string, into *[]fleet.Source) error {
	list := []fleet.Source{}
	err := d.records(n, path, func(n *yaml.Node, path string) error {
		s, keyFile, keyEnv := fleet.Source{Kind: fleet.Weir}, "", ""
		err := d.record(n, path, replicaFields(&s, &keyFile, &keyEnv))
		if err == nil && keyFile != "" {
			if wrong := readKey(&s, keyFile); wrong != nil {
				err = d.errorf(n, "%s.api_key_file: %v", path, wrong)
			}
		}
		if err == nil && keyEnv != "" {
			if wrong := keyOfEnvironment(&s, keyEnv); wrong != nil {
				err = d.errorf(n, "%s.api_key_env: %v", path, wrong)
			}
		}
		if err == nil {
			if wrong := s.Check(); wrong != nil {
				err = d.errorf(n, "%s: %v", path, wrong)
			}
		}
		if s.File == "" && s.Discover == "" && err == nil && slices.ContainsFunc(list, func(o fleet.Source) bool { return o.URL == s.URL && o.DNS == s.DNS && o.Model == s.Model }) {
			err = d.errorf(n, "%s: %s is listed twice; each replica is listed once", path, s.URL+s.DNS)
		}
		list = append(list, s)
		return err
	})
	if err == nil && len(list) == 0 {
		err = d.errorf(n, "%s is empty; list a url, a dns name or a file of each replica, or discover: store, or leave it out", path)
	}
	if err == nil {
		*into = list
	}
	return err
}

// maxKeyBytes is far above any key: what is longer is another file.
const maxKeyBytes = 4096

// readKey takes a replica's key from a file, such as a mounted secret.
func readKey(s *fleet.Source, path string) error {
	if s.APIKey != "" {
		return errors.New("there is an api_key too; set one of both")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	s.APIKey = fleet.Key(strings.TrimSpace(string(data)))
	if s.APIKey == "" || len(data) > maxKeyBytes {
		return fmt.Errorf("%s has %d bytes; it must hold the key alone", path, len(data))
	}
	return nil
}

// keyOfEnvironment takes a replica's key from a variable of the environment.
func keyOfEnvironment(s *fleet.Source, name string) error {
	if s.APIKey != "" {
		return errors.New("there is an api_key or an api_key_file too; set one of them")
	}
	if s.APIKey = fleet.Key(strings.TrimSpace(os.Getenv(name))); s.APIKey == "" {
		return fmt.Errorf("the environment variable %s is empty; it must hold the key", name)
	}
	return nil
}

// replicaFields binds the keys of an entry of replicas.
func replicaFields(s *fleet.Source, keyFile, keyEnv *string) []field {
	key := bindText(&s.APIKey, "the replica's key", anyText)
	key.show = func() string { return "(hidden)" }
	return []field{
		{key: "url", binding: bindText(&s.URL, "a URL like http://10.0.0.7:8000/v1", anyText)},
		{key: "dns", binding: bindText(&s.DNS, "a URL like http://weir-headless:8000/v1, of whose name each address is a replica", anyText)},
		{key: "file", binding: bindText(&s.File, "a path", anyText)},
		{key: "discover", binding: bindChoice(&s.Discover, []string{fleet.DiscoverStore})},
		{key: "node_selector", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			if isNull(n) {
				return nil
			}
			var err error
			s.NodeSelector, err = d.labels(n, path)
			return err
		}},
		{key: "kind", binding: bindChoice(&s.Kind, fleet.Kinds())},
		{key: "role", binding: bindChoice(&s.Role, fleet.Roles())},
		{key: "model", binding: bindText(&s.Model, "the replica's name of the model", anyText)},
		{key: "api_key", binding: key},
		{key: "api_key_file", binding: bindText(keyFile, "a path", anyText)},
		{key: "api_key_env", binding: bindText(keyEnv, "the name of an environment variable", anyText)},
		{key: "admin_url", binding: bindText(&s.AdminURL, "a URL like http://10.0.0.7:9090", anyText)},
		{key: "zone", binding: bindText(&s.Zone, "a word", anyText)},
		{key: "region", binding: bindText(&s.Region, tenant.NameForm, tenant.IsName)},
		{key: "apis", binding: bindWords(&s.APIs, fleet.APIs())},
		{key: "kv_events", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
			return d.record(n, path, eventFields(&s.Events))
		}},
	}
}

// eventFields binds the keys of where a replica publishes its KV events.
func eventFields(e *fleet.Events) []field {
	return []field{
		{key: "endpoint", binding: bindText(&e.Endpoint, "an endpoint like tcp://*:5557 or ipc:///run/vllm/kv.sock", anyText)},
		{key: "replay_endpoint", binding: bindText(&e.Replay, "an endpoint like tcp://*:5558", anyText)},
		{key: "topic", binding: bindText(&e.Topic, "a word", anyText)},
	}
}

// routingFields binds the keys of a model's routing.
func routingFields(r *fleet.Routing) []field {
	share := bindRatio(&r.RetryShare)
	set := share.set
	share.set = func(text string) error {
		err := set(text)
		if err == nil && r.RetryShare == 0 {
			r.RetryShare = -1 // 0 would be the default
		}
		return err
	}
	return []field{
		{key: "answer_timeout", binding: bindDuration(&r.AnswerTimeout, time.Second, 24*time.Hour)},
		{key: "stall_timeout", binding: bindDuration(&r.StallTimeout, time.Second, 24*time.Hour)},
		{key: "hold_time", binding: bindDuration(&r.HoldTime, time.Millisecond, time.Hour)},
		{key: "retry_share", binding: share},
		{key: "breaker_failures", binding: bindInt(&r.BreakerFailures, 1, 1_000_000, "")},
		{key: "breaker_pause", binding: bindDuration(&r.BreakerPause, time.Millisecond, time.Hour)},
		{key: "probe_interval", binding: bindDuration(&r.ProbeEvery, 100*time.Millisecond, time.Hour)},
		{key: "discovery_interval", binding: bindDuration(&r.LookEvery, 100*time.Millisecond, time.Hour)},
		{key: "zone", binding: bindText(&r.Zone, "a word", anyText)},
		{key: "zone_distance", binding: bindDuration(&r.ZoneDistance, time.Millisecond, time.Hour)},
	}
}

package configs

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/router/deployment"
	"weir/router/rollout"
)

func TestParseDeployment(t *testing.T) {
	const body = `{"modelId": "chat", "version": "hf.co/org/repo:Q4_K_M", "resources": {"kvCacheBytes": "1GiB", "maxSequences": 8, "maxModelLen": 4096, "computeWeight": 2},
		"rolloutPolicy": {"steps": [{"shadow": 10, "percent": 0, "minRequests": 5, "minTime": "1s"}, {"percent": 100, "min_requests": 5, "min_time": "1s"}], "gates": {"ttftRatio": 2}}, "warm": 1}`
	s, err := ParseDeployment("the body", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"kv_cache_memory_bytes": "1GiB", "max_num_seqs": "8", "max_model_len": "4096", "compute_weight": "2"}
	if s.Model != "chat" || s.Version != "hf.co/org/repo:Q4_K_M" || !reflect.DeepEqual(s.Resources, want) || s.Warm.Previous != 1 {
		t.Errorf("%+v", s)
	}
	if p := s.Policy; p == nil || len(p.Steps) != 2 || p.Steps[0].Shadow != 10 || p.Steps[1].MinTime != rollout.Duration(time.Second) || p.Gates.TTFTRatio != 2 || p.Model != "" {
		t.Errorf("%+v", s.Policy)
	}
	yml := "modelId: chat\nversion: hf.co/org/repo:Q4_K_M\nresources:\n  kv_cache_memory_bytes: 1GiB\n  max_num_seqs: 8\n  max_model_len: 4096\n  compute_weight: 2\n" +
		"rolloutPolicy:\n  steps:\n    - {shadow: 10, percent: 0, min_requests: 5, min_time: 1s}\n    - {percent: 100, min_requests: 5, min_time: 1s}\n  gates: {ttft_ratio: 2}\nwarm: 1\n"
	text, err := DeploymentJSON("chat.yml", []byte(yml))
	if err != nil {
		t.Fatal(err)
	}
	if same, err := ParseDeployment("chat.yml", text); err != nil || !reflect.DeepEqual(same, s) {
		t.Errorf("in YAML: %+v %v", same, err)
	}
	m := Deployed(s.Model, "/x.gguf", "2", s.Resources)
	c := Default().ForModel(m)
	if c.Engine.KVMemoryBytes != 1<<30 || c.Scheduler.MaxSeqs != 8 || m.ComputeWeight != 2 || m.Load != LoadNever || m.Version != "2" {
		t.Errorf("%+v %+v", m, c.Scheduler)
	}
}

// Where a deployment runs is said in Kubernetes's words; labels keep their letters.
func TestParsePlacement(t *testing.T) {
	const body = `{"modelId": "a", "version": "2", "replicas": 2, "nodeSelector": {"gpuModel": "H100", "example.com/Rack": "r7"}, "affinity": {"nodeAffinity":
		{"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpuCount", "operator": "Gt", "values": ["1"]}, {"key": "spot", "operator": "DoesNotExist"}]}]}}}}`
	s, err := ParseDeployment("the body", []byte(body))
	want := &deployment.Placement{
		Replicas: 2, NodeSelector: map[string]string{"gpuModel": "H100", "example.com/Rack": "r7"},
		Affinity: []deployment.SelectorTerm{{{Key: "gpuCount", Operator: deployment.Gt, Values: []string{"1"}}, {Key: "spot", Operator: deployment.DoesNotExist}}},
	}
	if err != nil || !reflect.DeepEqual(s.Placement, want) {
		t.Errorf("%+v %v", s.Placement, err)
	}
	if s, err := ParseDeployment("the body", []byte(`{"modelId": "a", "version": "2", "nodeSelector": null, "affinity": null}`)); err != nil || s.Placement != nil {
		t.Errorf("%+v %v", s.Placement, err)
	}
}

// required is a deployment with a required node affinity.
func required(terms string) string {
	return `{"modelId":"a","version":"2","affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":` + terms + `}}}`
}

// Labels that a server has by itself are not to be set, and the refusal says where they come from.
func TestBindLabels(t *testing.T) {
	for label, want := range map[string]string{
		"role=decode": "", "example.com/rack=r7": "", "empty=": "",
		"region=us": "from --region", "arch=arm": "from the machine", "memory-mib=1": "from --model-memory-bytes",
		"x/y/z=1": "one / and a name", "/a=1": "one / and a name", "a b=1": "letters, digits", "gpu": "no =",
	} {
		var labels []string
		b := bindLabels(&labels)
		err := b.set(label)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) || err == nil && len(labels) != 1 {
			t.Errorf("%s: %v %q; want %q", label, err, labels, want)
		}
	}
}

func TestParseDeploymentForms(t *testing.T) {
	for body, check := range map[string]func(s *deployment.Spec) bool{
		`{"model":"a","version":"2"}`:                                 func(s *deployment.Spec) bool { return s.Policy == nil && s.Resources == nil },
		`{"modelId":"a","version":"2","rolloutPolicy":"immediate"}`:   func(s *deployment.Spec) bool { return s.Policy == nil },
		`{"modelId":"a","version":"2","rolloutPolicy":"unchecked"}`:   func(s *deployment.Spec) bool { return s.Policy == nil && s.Unchecked },
		`{"modelId":"a","version":"2","rolloutPolicy":"canary"}`:      func(s *deployment.Spec) bool { return len(s.Policy.Steps) == len(rollout.DefaultSteps()) },
		`{"modelId":"a","version":"2","warm":["1","chat:v0"]}`:        func(s *deployment.Spec) bool { return len(s.Warm.Versions) == 2 },
		`{"model_id":"a","version":"2","resources":null,"warm":null}`: func(s *deployment.Spec) bool { return s.Warm.Previous == 0 },
	} {
		if s, err := ParseDeployment("the body", []byte(body)); err != nil || !check(&s) {
			t.Errorf("%s: %+v %v", body, s, err)
		}
	}
	for body, want := range map[string]string{
		`{"version":"2"}`:                                                               "no modelId",
		`{"modelId":"a"}`:                                                               "version is missing",
		`{"modelId":"a@b","version":"2"}`:                                               "without @",
		`{"modelId":"../../x","version":"2"}`:                                           "neither empty nor . or ..",
		`{"modelId":"a//b","version":"2"}`:                                              "neither empty nor . or ..",
		`{"modelId":"a","version":"../../x"}`:                                           "a version is no path",
		`{"modelId":"a","version":"2","warm":["x/../y"]}`:                               "a version is no path",
		`{"modelId":"a","version":"2","nodeSelector":{"x/y/z":"1"}}`:                    "one / and a name",
		required(`{"nodeSelectorTerms":[]}`):                                            "the body:1: deployment.affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms needs at least one term",
		required(`{"nodeSelectorTerms":null}`):                                          "needs at least one term",
		required(`{}`):                                                                  "needs at least one term",
		`{"modelId":"a","version":"a b"}`:                                               "no spaces",
		`{"modelId":"a","version":"2","replica":3}`:                                     "unknown key deployment.replica; known are model, version, resources, rollout_policy, warm, replicas, node_selector, affinity",
		`{"modelId":"a","version":"2","resources":{"gpu":1}}`:                           "unknown key deployment.resources.gpu; known are",
		`{"modelId":"a","version":"2","resources":{"chatTemplate":"x"}}`:                "unknown key deployment.resources.chat_template",
		`{"modelId":"a","version":"2","resources":{"maxSequences":-1}}`:                 "max_num_seqs",
		`{"modelId":"a","version":"2","resources":{"maxSequences":1,"max_num_seqs":2}}`: "appears twice",
		`{"modelId":"a","version":"2","resources":3}`:                                   "must be a mapping",
		`{"modelId":"a","version":"2","rolloutPolicy":"bluegreen"}`:                     "immediate, unchecked, canary",
		`{"modelId":"a","version":"2","rolloutPolicy":{"percent":5}}`:                   "percent",
		`{"modelId":"a","version":"2","rolloutPolicy":{"candidate":"5"}}`:               "rollout_policy.candidate",
		`{"modelId":"a","version":"2","rolloutPolicy":{"steps":[{"percent":500}]}}`:     "percent is 500",
		`{"modelId":"a","version":"2","warm":99}`:                                       "0 to 8",
		`{"modelId":"a","version":"2","warm":[""]}`:                                     "version is missing",
		`{"modelId":"a","version":"2","warm":{"previous":1}}`:                           "a number or a list",
		`{"modelId":"a","modelId":"b","version":"2"}`:                                   "appears twice",
		`[1]`:      "mapping",
		`nonsense`: "no JSON object",
		`{"a":` + strings.Repeat(`[`, 40) + strings.Repeat(`]`, 40) + `}`: "deeper than 16",
	} {
		if s, err := ParseDeployment("the body", []byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v %v; want %q", body, s, err, want)
		}
	}
}

// FuzzParseDeployment: no body panics, and what is accepted says the same when it is read again.
func FuzzParseDeployment(f *testing.F) {
	f.Add([]byte(`{"modelId":"a","version":"2","resources":{"maxSequences":8},"rolloutPolicy":"canary","warm":["1"]}`))
	f.Add([]byte(`{"model":"a","version":"v@sha256:0","rollout":{"steps":[{"percent":1,"min_requests":2,"min_time":"1s"}]}}`))
	f.Add([]byte(`{"modelId":"a","version":"2","replicas":2,"nodeSelector":{"gpuModel":"h100"},"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}]}}}}`))
	f.Add([]byte(`{"modelId":"\ud83d\ude00","version":"x","warm":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := ParseDeployment("fuzz", body)
		if err != nil {
			return
		}
		again := map[string]any{"modelId": s.Model, "version": s.Version}
		if s.Policy != nil {
			var policy map[string]any
			text, err := json.Marshal(s.Policy)
			if err == nil {
				err = json.Unmarshal(text, &policy)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, own := range []string{"id", "model", "stable", "candidate"} {
				delete(policy, own)
			}
			again["rolloutPolicy"] = policy
		}
		if s.Unchecked {
			again["rolloutPolicy"] = deployment.UncheckedPolicy
		}
		if p := s.Placement; p != nil {
			if p.Replicas > 0 {
				again["replicas"] = p.Replicas
			}
			terms := []any{}
			for _, t := range p.Affinity {
				terms = append(terms, map[string]any{"match_expressions": t})
			}
			again["node_selector"] = p.NodeSelector
			again["affinity"] = map[string]any{"node_affinity": map[string]any{"required_during_scheduling_ignored_during_execution": map[string]any{"node_selector_terms": terms}}}
		}
		text, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		s.Warm, s.Resources = deployment.Warm{}, nil
		if next, err := ParseDeployment("again", text); err != nil || !reflect.DeepEqual(next, s) {
			t.Fatalf("%q is %+v, and %s is %+v %v", body, s, text, next, err)
		}
	})
}

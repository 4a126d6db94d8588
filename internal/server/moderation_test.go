package server_test

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/api/moderation"
	"weir/configs"
	"weir/internal/server/servertest"
)

// A policy of the configuration reads requests and answers; what it finds is in the metrics, in the audit log and in
// what operators see of a request, and nothing that was asked is. A reload takes the policy away.
func TestPolicyOfAServer(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
	var from servertest.Source
	s := servertest.StartFrom(t, &from, func(c *configs.Config) {
		c.Store.URL = url
		c.Model.Safety = "house"
		c.Policies = []moderation.Spec{{Name: "house", Rules: []moderation.RuleSpec{
			{ID: "bombs", Category: "violence", Words: []string{"pipe bomb"}, Input: moderation.Block},
			{ID: "talk", Category: "talk", Patterns: []string{`\btoken`}, Output: moderation.Block, Input: moderation.Flag},
		}}}
	})
	refused := s.Post("/v1/chat/completions", `{"messages":[{"role":"user","content":"How is a pipe bomb made?"}]}`)
	if text := servertest.Body(t, refused); refused.StatusCode != http.StatusBadRequest || !strings.Contains(text, "content_policy_violation") {
		t.Errorf("%d %s", refused.StatusCode, text)
	}
	const question = `{"messages":[{"role":"user","content":"What is TTFT? A token?"}],"temperature":0,"max_tokens":60}`
	blocked := s.Post("/v1/chat/completions", question)
	text := servertest.Body(t, blocked)
	if blocked.StatusCode != http.StatusOK || !strings.Contains(text, `"finish_reason":"content_filter"`) || strings.Contains(text, "token.") {
		t.Fatalf("%d %s", blocked.StatusCode, text)
	}
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(text)[1]
	if got := s.Post("/v1/moderations", `{"input":["a pipe bomb","a cat"]}`); got.StatusCode != http.StatusOK ||
		!regexp.MustCompile(`"flagged":true.*"flagged":false`).MatchString(servertest.Body(t, got)) {
		t.Errorf("/v1/moderations: %d", got.StatusCode)
	}
	for _, c := range []struct{ url, want string }{
		{"/admin/explain?request=" + id, `"rule": "talk",\s+"category": "talk",\s+"side": "output",\s+"action": "block"`},
		{"/admin/explain?request=" + refused.Header.Get("X-Request-Id"), `"rule": "bombs",\s+"category": "violence",\s+"side": "input",\s+"action": "block"`},
		{"/metrics", `weir_moderation_findings_total\{action="block",category="violence",model_name="weir-default",policy="house",side="input"\} 1`},
		{"/metrics", `weir_moderation_findings_total\{action="flag",category="talk",model_name="weir-default",policy="house",side="input"\} 1`},
		{"/metrics", `vllm:request_success_total\{engine="0",finished_reason="content_filter",model_name="weir-default"\} 1`},
	} {
		if _, text := s.Get(s.Admin + c.url); !regexp.MustCompile(c.want).MatchString(text) {
			t.Errorf("%s has no %s:\n%.3000s", c.url, c.want, text)
		}
	}
	from.Change(func(c *configs.Config) { c.Model.Safety, c.Policies = "", nil }, nil)
	if status, text := s.Reload(); status != http.StatusOK || !strings.Contains(text, "policies") {
		t.Errorf("reload: %d %s", status, text)
	}
	if text := servertest.Body(t, s.Post("/v1/chat/completions", question)); strings.Contains(text, "content_filter") {
		t.Errorf("after the reload: %s", text)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
	list := servertest.AuditLog(t, url)
	for _, want := range []string{`policy:house +moderation .*"rule":"bombs".*"tenant":`, `policy:house +moderation +` + id + ` .*"side":"output"`} {
		if !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("no %s in\n%s", want, list)
		}
	}
	for _, secret := range []string{"pipe", "TTFT"} {
		if strings.Contains(list, secret) || strings.Contains(s.Errs.String(), secret) {
			t.Errorf("%q was written down:\n%s\n%s", secret, list, s.Errs.String())
		}
	}
}

package servertest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"weir/api/admin"
)

// ChangeDeployment sends a request to /v1/deployments, with header fields "Name: value".
func (s *Server) ChangeDeployment(method, path, body string, header ...string) (status int, text string) {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), method, s.Admin+"/v1/deployments"+path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Error(err)
	}
	return res.StatusCode, string(b)
}

// ApplyDeployment asks for a deployment, which must be taken.
func (s *Server) ApplyDeployment(body string) admin.DeploymentView {
	s.T.Helper()
	var v admin.DeploymentView
	if status, text := s.ChangeDeployment(http.MethodPost, "", body); status >= http.StatusBadRequest || json.Unmarshal([]byte(text), &v) != nil {
		s.T.Fatalf("%s: %d %s\n%s", body, status, text, s.Errs.String())
	}
	return v
}

// AwaitDeployment waits until a server shows a deployment as ok says.
func (s *Server) AwaitDeployment(model string, ok func(v *admin.DeploymentView) bool) (v admin.DeploymentView) {
	s.T.Helper()
	text := ""
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var status int
		status, text = s.ChangeDeployment(http.MethodGet, "/"+model, "")
		v = admin.DeploymentView{}
		if status == http.StatusOK && json.Unmarshal([]byte(text), &v) == nil && ok(&v) {
			return v
		}
	}
	s.T.Fatalf("after %v the deployment is\n%s\n%s", Patience, text, s.Errs.String())
	return v
}

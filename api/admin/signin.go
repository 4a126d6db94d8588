package admin

import (
	"io"
	"net/http"

	"weir/api"
	"weir/api/signin"
)

// signIn changes the codes that browsers bring back for tokens.
func signIn(service *signin.Service) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxChangeBytes))
		if err != nil {
			refuse(w, api.Refuse("invalid_value", "read the request's body: "+err.Error()))
			return
		}
		order, fault := signin.ReadOrder(body)
		if fault != nil {
			refuse(w, fault)
			return
		}
		token, fault := service.Exchange(r.Context(), order)
		if fault != nil {
			refuse(w, fault)
			return
		}
		writeFresh(w, token)
	}
}

// writeFresh answers with what no cache may keep.
func writeFresh(w http.ResponseWriter, v any) {
	w.Header().Set("Cache-Control", "no-store")
	write(w, http.StatusOK, v)
}

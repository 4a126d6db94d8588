package models

import "weir/api"

// NoTemplate refuses a chat with a model that has no chat template.
func (m *Model) NoTemplate() *api.Error {
	return api.RefuseParam("no_chat_template", "messages",
		"the model %s has no chat template that this server can render; use /v1/completions with a prompt of your own, or run the server with --chat-template", m.ID)
}

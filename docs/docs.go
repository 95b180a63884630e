// Package docs holds the descriptions that the server serves itself.
package docs

import "embed"

// OpenAPI describes the market data over HTTP.
//
//go:embed openapi.yaml
var OpenAPI []byte

// AsyncAPI describes the messages of JSON over WebSocket.
//
//go:embed asyncapi.yaml
var AsyncAPI []byte

// Pages are the documents, in Markdown.
//
//go:embed *.md decisions/*.md reference/*.md
var Pages embed.FS

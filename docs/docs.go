// Package docs holds the descriptions that the server serves itself.
package docs

import _ "embed"

// OpenAPI describes the market data over HTTP.
//
//go:embed openapi.yaml
var OpenAPI []byte

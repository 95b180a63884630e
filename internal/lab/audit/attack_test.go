package audit

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARequestWithTwoEndsThatIsTakenIsNoticed(t *testing.T) {
	require.NoError(t, judgeSmuggled(&http.Response{StatusCode: 400, Close: true}, ""))
	require.Error(t, judgeSmuggled(&http.Response{StatusCode: 200, Close: true}, ""))
	require.Error(t, judgeSmuggled(&http.Response{StatusCode: 400}, ""))
}

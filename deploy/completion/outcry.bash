# Completion of outcry for bash. Written by outcry completion bash.
_outcry() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  local i skip= flags= next= files= first= second=
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in '=' | ':') skip=1; continue ;; esac # bash breaks words there
    if [[ -n $skip ]]; then skip=; continue; fi
    case ${COMP_WORDS[i]} in
    --addr | --address | --after | --amount | --band | --base-port | --config | --data | --database-url | --database-url-file | --dir | --expires | --hmac | --http | --journal | --limit | --lot | --max-accounts | --max-bytes | --max-connections | --max-http-connections | --max-memory | --max-open-orders | --max-symbols | --memory-limit | --new-ref | --note | --notional | --open | --outcryd | --protect | --ref | --scope | --segment | --shares | --stp | --sym | --tick | --tif | --timeout | --tls-ca | --tls-cert | --tls-key | --token-file | --wait) skip=1 ;;
    -*) ;;
    *) if [[ -z $first ]]; then first=${COMP_WORDS[i]}; elif [[ -z $second ]]; then second=${COMP_WORDS[i]}; fi ;;
    esac
  done
  case "$first $second" in
  "account "*) flags='--ref --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "symbol "*) flags='--band --json --lot --protect --tick --addr --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "place "*) flags='--ref --sym --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "buy "*) flags='--cod --full --market --post --ref --stp --sym --tif --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "sell "*) flags='--cod --full --market --post --ref --stp --sym --tif --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "amend "*) flags='--amount --full --limit --new-ref --ref --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "query "*) flags='--ref --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "cancel "*) flags='--all --ref --sym --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "cancel-after "*) flags='--addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "orders "*) flags='--sym --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "fills "*) flags='--after --addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "send "*) flags='--addr --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files=1 ;;
  "journal "*) flags='--help' next='' files=1 ;;
  "verify "*) flags='--config --data --database-url --database-url-file --live --help' next='' files=1 ;;
  "backup "*) flags='--config --data --database-url --database-url-file --max-bytes --wait --with-secrets --without-journal --help' next='' files=1 ;;
  "restore "*) flags='--check --config --data --database-url --database-url-file --journal --segment --help' next='' files=1 ;;
  "doctor "*) flags='--config --data --database-url --database-url-file --json --max-accounts --max-connections --max-http-connections --max-memory --max-open-orders --max-symbols --memory-limit --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "token add") flags='--data --expires --hmac --note --scope --help' next='' files= ;;
  "token list") flags='--data --help' next='' files= ;;
  "token revoke") flags='--data --help' next='' files= ;;
  "status "*) flags='--json --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "halt "*) flags='--json --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "resume "*) flags='--json --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "cancel-all "*) flags='--json --sym --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "block "*) flags='--json --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "unblock "*) flags='--json --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "limits "*) flags='--json --notional --open --shares --stp --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "cluster status") flags='--json --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "cluster transfer") flags='--json --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "cluster add") flags='--json --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "cluster remove") flags='--json --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "cluster replace") flags='--json --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='' files= ;;
  "cluster rescue") flags='--address --alone --config --data --database-url --database-url-file --help' next='' files=1 ;;
  "cluster try") flags='--base-port --dir --outcryd --help' next='' files= ;;
  "completion "*) flags='--help' next='bash zsh fish' files= ;;
  "help "*) flags='--help' next='account symbol place buy sell amend query cancel cancel-after orders fills send journal verify backup restore doctor token status halt resume cancel-all block unblock limits cluster completion help version' files= ;;
  "version "*) flags='--help' next='' files= ;;
  "token "*) flags='' next='add list revoke' files= ;;
  "cluster "*) flags='' next='status transfer add remove replace rescue try' files= ;;
  " "*) flags='--addr --http --insecure-token --timeout --tls-ca --tls-cert --tls-key --token-file --help' next='account symbol place buy sell amend query cancel cancel-after orders fills send journal verify backup restore doctor token status halt resume cancel-all block unblock limits cluster completion help version' files= ;;
  esac
  COMPREPLY=()
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
  case $prev in --config | --data | --database-url-file | --dir | --journal | --tls-ca | --tls-cert | --tls-key | --token-file) skip=1 files=1 ;; *) [[ -n $skip ]] && files= ;; esac
  if [[ -z $skip && $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  elif [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    local IFS=$'\n'
    COMPREPLY=($(compgen -f -- "$cur"))
  elif [[ -z $skip ]]; then
    COMPREPLY=($(compgen -W "$next" -- "$cur"))
  fi
}
complete -F _outcry outcry

# Paths at a far end, as for scp: ssh lists them, if it needs to ask nothing.
_sealane_far() {
    [[ $words[2] == (cp|copy) ]] || return 1
    local word=${(Q)PREFIX}
    [[ $word == *:* && $word != [:/.-]* && $word != [a-z]##://* && ${word%%:*} != */* ]] || return 1
    local host=${word%%:*} typed=${word#*:} quoted
    local -a found
    quoted=${(q)typed}
    # What the far shell makes of the home directory ends in /./, and becomes ~ again.
    [[ $typed == '~/'* ]] && quoted='~/./'${(q)${typed#'~/'}}
    found=(${(f)"$(${SEALANE_SSH:-ssh} -o BatchMode=yes -o ConnectTimeout=5 -- $host "ls -1dpL -- $quoted* 2>/dev/null" 2>/dev/null </dev/null)"})
    (( $#found )) || return 1
    [[ $typed == '~/'* ]] && found=(${found/#*\/.\//'~/'})
    compset -P '[^:]#:'
    found=(${${(q)found}/#\\~/'~'})
    compadd -Q -S '' -- ${(M)found:#*/}
    compadd -Q -- ${found:#*/}
    return 0
}

_sealane_product() {
    _sealane_far || _sealane_here "$@"
}

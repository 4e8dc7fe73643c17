# PowerShell completion of kubectl-mc, also under the name kmc

Register-ArgumentCompleter -Native -CommandName 'kubectl-mc', 'kmc' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    # The words as the program gets them, and the text of the last one up to the cursor.
    $words = @()
    $typed = ''
    $isQuoted = $false
    $before = 0
    foreach ($element in @($commandAst.CommandElements | Select-Object -Skip 1)) {
        $start = $element.Extent.StartOffset
        if ($start -ge $cursorPosition) { break }
        $text = $element.Extent.Text
        $isString = $element -is [System.Management.Automation.Language.StringConstantExpressionAst] -or
            $element -is [System.Management.Automation.Language.ExpandableStringExpressionAst]
        if ($element.Extent.EndOffset -lt $cursorPosition) {
            $words += if ($isString) { $element.Value } else { $text }
            continue
        }
        $typed = $text.Substring(0, [Math]::Min($cursorPosition - $start, $text.Length))
        if ($typed -match '^([''"])(.*?)\1?$') {
            $isQuoted = $true
            $quote, $typed = $Matches[1], $Matches[2]
            $typed = if ($quote -eq "'") { $typed.Replace("''", "'") } else { $typed -replace '`(.)', '$1' }
        } elseif ($isString) {
            $typed = $typed -replace '`(.)', '$1'
        } elseif ($typed.EndsWith($wordToComplete, 'Ordinal')) {
            # Of a list with commas, PowerShell replaces only the last name.
            $before = $typed.Length - $wordToComplete.Length
        }
    }

    # Older versions and the legacy mode drop an empty argument without quotes.
    $isLegacy = $PSVersionTable.PSVersion -lt [version]'7.3.0' -or $PSNativeCommandArgumentPassing -eq 'Legacy'
    $arguments = @($words + $typed | ForEach-Object { if ($isLegacy -and $_ -eq '') { '""' } else { $_ } })
    $lines = @(& kubectl-mc __complete @arguments 2>$null)
    if ($lines.Count -eq 0 -or -not ($lines[-1] -match '^:(\d+)$')) { return }
    $directive = [int]$Matches[1]

    # A candidate for --flag=value is the value alone.
    $flag = if ($typed -match '^--[^=]*=') { $Matches[0] } else { '' }
    $found = $false
    foreach ($line in @($lines | Select-Object -SkipLast 1)) {
        $word, $about = $line -split "`t", 2
        if (-not $about) { $about = $word }
        $whole = if ($flag -and -not $word.StartsWith($flag, 'Ordinal')) { "$flag$word" } else { $word }
        if ($whole.Length -le $before -or -not $whole.StartsWith($typed, 'Ordinal')) { continue }
        $found = $true
        $text = $whole.Substring($before)
        $text = if ($isQuoted) {
            "'" + $text.Replace("'", "''") + "'"
        } else {
            $text -replace '[\s#@$;,''{}()"`|<>&\u2018-\u201e]', '`$&'
        }
        # PowerShell adds no space, so the directive against one needs nothing.
        if ($ExecutionContext.SessionState.LanguageMode -eq 'FullLanguage') {
            [System.Management.Automation.CompletionResult]::new($text, $word, 'ParameterValue', $about)
        } else {
            $text
        }
    }
    # Without any result, PowerShell completes the names of files.
    if (-not $found -and ($directive -band 4)) { '' }
}

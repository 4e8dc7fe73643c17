# PowerShell completion of kubectl-mc, also under the name kmc

Register-ArgumentCompleter -Native -CommandName 'kubectl-mc', 'kmc' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
            Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object { $_.ToString() })
    # An empty argument reaches a program as it is since PowerShell 7.3.
    $typed = if ($wordToComplete) { $wordToComplete } elseif ($PSVersionTable.PSVersion -ge [version]'7.3') { '' } else { '""' }
    $lines = @(& kubectl-mc __complete @words $typed 2>$null)
    if ($lines.Count -lt 2) { return }
    # A candidate for --flag=value is the value alone.
    $before = if ($wordToComplete -match '^(--[^=]*=)') { $Matches[1] } else { '' }
    foreach ($line in $lines[0..($lines.Count - 2)]) {
        $word, $about = $line -split "`t", 2
        if (-not $about) { $about = $word }
        [System.Management.Automation.CompletionResult]::new("$before$word", $word, 'ParameterValue', $about)
    }
}
